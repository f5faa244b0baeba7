# SPDX-License-Identifier: GPL-2.0-or-later
"""The events of the kernel's trace points: what there is, and switching them.

Their descriptions are in the image, as guest/include/linux/trace_events.h says.  Those
of system calls are made of the calls' declarations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kpfs.base import abi
from kpfs.base.ktypes import EventField, StaticEvent
from kpfs.guest.emu.memory import Memory
from kpfs.guest.loader.elf import ElfFile
from kpfs.guest.running.jump_labels import JumpLabels

_CALL, _FIELD = abi.TraceEventCall.STRUCT, abi.TraceEventField.STRUCT
_TEXT_MAX = 4096
FORK_KEY = "__tracepoint_sched_process_fork"
FREE_KEY = "__tracepoint_sched_process_free"


class _Switch(NamedTuple):
    """The switch of an event: its trace point's key, and the word with its number."""

    key: int
    slot: int
    nr_args: int | None = None  # of a system call: is written behind the word
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
    ) -> None:
        """numbers: the system calls' numbers by the names in their declarations."""
        self._memory = memory
        self._image = image
        self._keys = keys
        self._addresses = addresses
        self._numbers = numbers
        self._switches: dict[tuple[str, str], _Switch] = {}

    def all(self) -> list[StaticEvent]:
        return [*self._declared(), *self._syscalls()]

    def enable(self, group: str, name: str, event: int, commit: int) -> None:
        """Record an event by commit(event, record, size); event 0 ends that."""
        memory, switch = self._memory, self._switches[group, name]
        memory.write_u64(self._addresses["trace_event_commit"], commit)
        memory.write_u64(switch.slot, event)
        if switch.nr_args is not None:
            memory.write_u64(switch.slot + abi.SyscallEvent.nr_args, switch.nr_args)
        self._keys.use(switch.key, bool(event), switch.function)

    def follow_fork(self, func: int) -> None:
        """See kpfs.engine.machine.TraceEvents."""
        self._memory.write_u64(self._addresses["trace_follow_fork"], func)
        for name in (FORK_KEY, FREE_KEY):
            self._keys.use(self._addresses[name], bool(func))

    # ---- what there is

    def _text(self, addr: int) -> str:
        return self._memory.read_cstring(addr, _TEXT_MAX).decode("latin-1")

    def _declared(self) -> list[StaticEvent]:
        section = self._image.section("_ftrace_events")
        found: list[StaticEvent] = []
        if section is None:
            return found
        for call in _CALL.iter_unpack(self._image.contents(section)):
            system, name, key, slot, fields, count, fmt = call
            group, name = self._text(system), self._text(name)
            raw = self._memory.read(fields, count * _FIELD.size)
            rows = tuple(
                EventField(self._text(kind), self._text(field), at, size, bool(signed))
                for kind, field, at, size, signed in _FIELD.iter_unpack(raw)
            )
            self._switches[group, name] = _Switch(key, slot)
            found.append(StaticEvent(group, name, rows, self._text(fmt)))
        return found

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
