# SPDX-License-Identifier: GPL-2.0-or-later
"""The events of trace points, such as sched_switch, and those of modules."""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from kpfs.base.abi import EVENT_SYSCALL
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import StaticEvent
from kpfs.engine.machine import Machine
from kpfs.engine.runtime.records import KpEvent
from kpfs.engine.runtime.runtime import Runtime
from kpfs.engine.trace.event.fields import Field
from kpfs.engine.trace.event.print_fmt import (
    UnknownFormatError,
    plain_format,
    record_text,
)
from kpfs.engine.trace.event.trace_event import Printer, SymbolText, TraceEvent

COMMIT = "kp_trace_event"
_ENTER, _EXIT = "sys_enter_", "sys_exit_"
_ARG = struct.Struct("<Q")

Values = Mapping[str, "int | str | list[int]"]


class KernelEvent(TraceEvent):
    """The event of a trace point or system call.  Kernel: trace_event_call"""

    def __init__(self, machine: Machine, runtime: Runtime, what: StaticEvent) -> None:
        super().__init__(what.group, what.name)
        self._machine = machine
        self._runtime = runtime
        self._what = what
        self.module = what.module
        self._guest: KpEvent | None = None
        self._armed = False

    def guest_events(self) -> Sequence[KpEvent]:
        return [self._guest] if self._guest else []

    def guest_flags(self) -> int:
        return EVENT_SYSCALL if self.group == "syscalls" else 0

    def reg(self, enable: bool) -> None:
        """Context: control.  Kernel: trace_event_reg(), syscall_enter_register()"""
        if self.tracing == self._armed:
            return
        if self._guest is None:
            self._guest = self._runtime.make(KpEvent)
            self._guest.type = self.id
        event = self._guest.addr if enable else 0
        commit = self._runtime.symbols[COMMIT]
        self._machine.trace_events.enable(self.group, self.name, event, commit)
        self._armed = enable

    def hold(self, on: bool) -> None:
        """Keep its module, too."""
        modules, at = self._machine.modules, self._what.module_addr
        if at and not on:
            modules.module_put(at)
        elif at and not modules.try_module_get(at):
            raise KernelError(errno.EBUSY, f"{self.module} is going")
        super().hold(on)

    def forget(self) -> None:
        """Forget the event, which is off, as its module goes.  Context: control."""
        runtime, guest = self._runtime, self._guest
        self._machine.trace_events.forget(self.group, self.name)
        self._guest = None
        if guest is not None:
            runtime.after_quiescence(lambda: runtime.free(guest))

    def fields(self) -> Sequence[Field]:
        return self._what.fields

    def print_fmt(self) -> str:
        return self._what.print_fmt

    def printer(self, symbol: SymbolText) -> Printer:
        if self.group == "syscalls":
            return self._syscall_printer()
        name, what = self.name, self._what
        known = TEXTS.get(name) if not what.module else None
        if known is None:
            try:
                show = record_text(what.print_fmt, what.fields, symbol)
            except (UnknownFormatError, RecursionError):
                show = record_text(plain_format(what.fields), what.fields, symbol)
            return lambda pages, record: f"{name}: {show(pages, record)}\n"
        text, read = known.format_map, _reader(what.fields)
        return lambda pages, record: f"{name}: {text(read(pages, record))}\n"

    def _syscall_printer(self) -> Printer:
        """Kernel: print_syscall_enter(), print_syscall_exit()"""
        if self.name.startswith(_EXIT):
            name = "sys_" + self.name[len(_EXIT) :]

            def show_exit(pages: memoryview, record: int) -> str:
                (ret,) = _ARG.unpack_from(pages, record + 16)
                return f"{name} -> {ret:#x}\n"

            return show_exit
        name = "sys_" + self.name[len(_ENTER) :]
        names = [field.name for field in self._what.fields[1:]]
        unpack = struct.Struct(f"<{len(names)}Q").unpack_from

        def show_enter(pages: memoryview, record: int) -> str:
            values = unpack(pages, record + 16)
            pairs = [f"{n}: {v:x}" for n, v in zip(names, values, strict=True)]
            return f"{name}({', '.join(pairs)})\n"

        return show_enter


def _reader(fields: Sequence[Field]) -> Callable[[memoryview, int], Values]:
    """Make the function that reads the values of a record's fields."""
    formats = {1: "b", 2: "h", 4: "i", 8: "q"}
    plan: list[tuple[str, int, struct.Struct | None, int]] = []
    for field in fields:
        name, bracket, _ = field.name.partition("[")
        if bracket and field.size > 8 and "char" not in field.type:
            words = struct.Struct(f"<{field.size // 8}Q")
            plan.append((name, field.offset, words, field.size))
        elif bracket:
            plan.append((name, field.offset, None, field.size))
        else:
            code = formats[field.size]
            one = struct.Struct("<" + (code if field.signed else code.upper()))
            plan.append((name, field.offset, one, field.size))

    def read(pages: memoryview, record: int) -> Values:
        values: dict[str, int | str | list[int]] = {}
        for name, offset, form, size in plan:
            at = record + offset
            if form is None:
                text = bytes(pages[at : at + size]).partition(b"\0")[0]
                values[name] = text.decode("latin-1")
            else:
                found = form.unpack_from(pages, at)
                values[name] = found[0] if len(found) == 1 else list(found)
        if (state := values.get("prev_state")) is not None:
            values["prev_state"] = _task_state(cast(int, state))
        return values

    return read


# ---- texts of records, as Linux's print formats make them

_STATES = "SDTtXZPI"
_STATE_MAX = 1 << len(_STATES)


def _task_state(state: int) -> str:
    names = [name for i, name in enumerate(_STATES) if state >> i & 1]
    return ("|".join(names) or "R") + ("+" if state & _STATE_MAX else "")


_TASK = "comm={comm} pid={pid} prio={prio}"
_WAKEUP = _TASK + " target_cpu={target_cpu:03d}"
TEXTS: Mapping[str, str] = {
    "sched_switch": (
        "prev_comm={prev_comm} prev_pid={prev_pid} prev_prio={prev_prio} "
        "prev_state={prev_state} ==> "
        "next_comm={next_comm} next_pid={next_pid} next_prio={next_prio}"
    ),
    "sched_waking": _WAKEUP,
    "sched_wakeup": _WAKEUP,
    "sched_wakeup_new": _WAKEUP,
    "sched_process_fork": (
        "comm={parent_comm} pid={parent_pid} "
        "child_comm={child_comm} child_pid={child_pid}"
    ),
    "sched_process_exit": _TASK,
    "sys_enter": "NR {id} (" + ", ".join(f"{{args[{i}]:x}}" for i in range(6)) + ")",
    "sys_exit": "NR {id} = {ret}",
}


def static_events(runtime: Runtime) -> list[KernelEvent]:
    """Return all such events.  Context: control.  Kernel: __start_ftrace_events"""
    machine = runtime.machine
    return [KernelEvent(machine, runtime, what) for what in machine.trace_events.all()]


def module_events(runtime: Runtime, module: str) -> list[KernelEvent]:
    """Return those of a module.  Context: control.  Kernel: mod->trace_events"""
    machine = runtime.machine
    found = machine.trace_events.of_module(module)
    return [KernelEvent(machine, runtime, what) for what in found]
