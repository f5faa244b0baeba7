# SPDX-License-Identifier: GPL-2.0-or-later
"""The events of trace points: what there is, and switching them.

Their descriptions are in the image and in modules, as
guest/include/linux/trace_events.h says.  Those of system calls are made of the calls'
declarations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from kpfs.base import abi
from kpfs.base.elf import ElfFile
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import EventField, StaticEvent
from kpfs.guest.emu.memory import Memory
from kpfs.guest.loader.modules import Module, Modules
from kpfs.guest.running.jump_labels import JumpLabels

_CALL, _FIELD = abi.TraceEventCall.STRUCT, abi.TraceEventField.STRUCT
_VALUE = abi.TraceEvalMap.STRUCT
_HEAD_SIZE = 8  # bytes before a record's fields; kernel: struct trace_entry
_TEXT_MAX = 4096
FORK_KEY = "__tracepoint_sched_process_fork"
FREE_KEY = "__tracepoint_sched_process_free"


class _Switch(NamedTuple):
    """The switch of an event: its trace point's key, and the word with its number."""

    key: int
    slot: int
    nr_args: int | None = None  # arguments of a system call, written behind the word
    function: int | None = None  # the system call's, of which alone it tells


class TraceEvents:
    """Lists the events and switches them on and off.  Context: control."""

    def __init__(
        self,
        memory: Memory,
        image: ElfFile,
        keys: JumpLabels,
        addresses: Mapping[str, int],
        numbers: Mapping[str, int],
        modules: Modules,
        call: Callable[[int], int],
    ) -> None:
        """numbers: the system calls' numbers by the names in their declarations.

        call: runs a function of the guest, which returns an int.
        """
        self._call = call
        self._modules = modules
        self._memory = memory
        self._image = image
        self._keys = keys
        self._addresses = addresses
        self._numbers = numbers
        self._switches: dict[tuple[str, str], _Switch] = {}

    def all(self) -> list[StaticEvent]:
        """Return the events, in the order in which they came."""
        section = self._image.section("_ftrace_events")
        table = b"" if section is None else self._image.contents(section)
        events = [*self._declared(table, {}), *self._syscalls()]
        for mod in self._modules.by_age():
            events += self._of_module(mod)
        return events

    def of_module(self, name: str) -> list[StaticEvent]:
        """See kpfs.engine.machine.TraceEvents."""
        mod = self._modules.find(name)
        return [] if mod is None else self._of_module(mod)

    def forget(self, group: str, name: str) -> None:
        """See kpfs.engine.machine.TraceEvents."""
        self._keys.forget(self._switches.pop((group, name)).key)

    def enable(self, group: str, name: str, event: int, commit: int) -> None:
        """Record an event by commit(event, record, size); event 0 ends that.

        The first and the last user of a trace point have a function of it called, which
        may refuse the first.  Kernel: tracepoint_add_func(), tracepoint_remove_func()
        """
        memory, switch = self._memory, self._switches[group, name]
        if self._keys.users(switch.key) == int(not event):
            which = abi.Tracepoint.regfunc if event else abi.Tracepoint.unregfunc
            function = memory.read_u64(switch.key + which)
            result = self._call(function) & 0xFFFFFFFF if function else 0
            if event and result >> 31:
                raise KernelError((1 << 32) - result, f"{name} cannot be switched on")
        memory.write_u64(self._addresses["trace_event_commit"], commit)
        memory.write_u64(switch.slot, event)
        if switch.nr_args is not None:
            memory.write_u64(switch.slot + abi.SyscallEvent.nr_args, switch.nr_args)
        self._keys.use(switch.key, bool(event), switch.function)

    def serve(self, _number: int, key: int, on: int) -> int:
        """Serve CTL_TRACEPOINT: a module's function more, or less, is called."""
        for mod in self._modules.by_age():
            self._add_sites(mod)
        self._keys.use(key, bool(on))
        return 0

    def follow_fork(self, func: int) -> None:
        """See kpfs.engine.machine.TraceEvents."""
        self._memory.write_u64(self._addresses["trace_follow_fork"], func)
        for name in (FORK_KEY, FREE_KEY):
            self._keys.use(self._addresses[name], bool(func))

    # ---- what there is

    def _text(self, addr: int) -> str:
        return self._memory.read_cstring(addr, _TEXT_MAX).decode("latin-1")

    def _of_module(self, mod: Module) -> list[StaticEvent]:
        """Describe a module's events, whose sites can be switched from then on."""
        _, table = mod.section("_ftrace_events")
        if not table:
            return []
        self._add_sites(mod)
        values: dict[str, dict[str, int]] = {}
        for row in _VALUE.iter_unpack(mod.section("_ftrace_eval_map")[1]):
            system, name, value = row
            values.setdefault(self._text(system), {})[self._text(name)] = value
        return [
            event._replace(module=mod.name, module_addr=mod.addr)
            for event in self._declared(table, values)
        ]

    def _add_sites(self, mod: Module) -> None:
        self._keys.add(*mod.section("__jump_table"), mod.layout.holds)

    def _declared(
        self, table: bytes, values: Mapping[str, Mapping[str, int]]
    ) -> Iterator[StaticEvent]:
        """Yield the events of a section; values: names in formats, by the system."""
        for call in _CALL.iter_unpack(table):
            system, name, key, slot, fields, count, fmt = call
            group, name = self._text(system), self._text(name)
            rows = tuple(self._fields(fields, count))
            self._switches[group, name] = _Switch(key, slot)
            text = _with_values(self._text(fmt), values.get(group, {}))
            yield StaticEvent(group, name, rows, text)

    def _fields(self, start: int, count: int) -> Iterator[EventField]:
        """Kernel: trace_event_define_fields()"""
        raw, end = self._memory.read(start, count * _FIELD.size), _HEAD_SIZE
        for kind, name, at, size, signed, align in _FIELD.iter_unpack(raw):
            offset = at or (end + align - 1) // align * align
            end = offset + size
            yield EventField(
                self._text(kind), self._text(name), offset, size, bool(signed)
            )

    def _syscalls(self) -> list[StaticEvent]:
        section = self._image.section("__syscalls_metadata")
        found: list[StaticEvent] = []
        if section is None:
            return found
        tables = {
            way: (
                self._addresses[f"__tracepoint_sys_{way}"],
                self._addresses[f"{way}_syscall_events"],
            )
            for way in ("enter", "exit")
        }
        for text in self._image.contents(section).split(b"\0"):
            name, _, rest = text.decode("latin-1").partition("(")
            number = self._numbers.get(name)
            if number is None:
                continue
            arguments = [a for a in rest.rstrip(")").split(", ") if a]
            for way, event in (
                ("exit", _exit_event(name)),
                ("enter", _enter_event(name, arguments)),
            ):
                key, table = tables[way]
                slot = table + number * abi.SyscallEvent.SIZE
                self._switches[event.group, event.name] = _Switch(
                    key, slot, len(arguments), self._addresses[f"__x64_sys_{name}"]
                )
                found.append(event)
        return found


def _with_values(fmt: str, values: Mapping[str, int]) -> str:
    """Put numbers for names outside of strings.  Kernel: trace_event_eval_update()"""
    if not values:
        return fmt
    names = "|".join(sorted(map(re.escape, values), key=len, reverse=True))
    words = re.compile(rf'"(?:[^"\\]|\\.)*"|(?<!\w)(?:{names})(?!\w)')
    return words.sub(lambda found: str(values.get(found[0], found[0])), fmt)


_NUMBER = EventField("int", "__syscall_nr", 8, 4, True)


def _enter_event(name: str, arguments: list[str]) -> StaticEvent:
    """Kernel: syscall_enter_define_fields(), __set_enter_print_fmt()"""
    fields = [_NUMBER]
    for i, text in enumerate(arguments):
        kind, _, argument = text.rpartition(" ")
        while argument.startswith("*"):
            kind, argument = f"{kind} *", argument[1:]
        fields.append(EventField(kind, argument, 16 + 8 * i, 8, False))
    names = [field.name for field in fields[1:]]
    fmt = ", ".join(f"{n}: 0x%08lx" for n in names)
    values = "".join(f", ((unsigned long)(REC->{n}))" for n in names)
    return StaticEvent(
        "syscalls", f"sys_enter_{name}", tuple(fields), f'"{fmt}"{values}'
    )


def _exit_event(name: str) -> StaticEvent:
    """Kernel: syscall_exit_fields_array"""
    fields = (_NUMBER, EventField("long", "ret", 16, 8, True))
    return StaticEvent("syscalls", f"sys_exit_{name}", fields, '"0x%lx", REC->ret')
