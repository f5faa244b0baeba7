# SPDX-License-Identifier: GPL-2.0-or-later
"""Kprobe events on fakes, and a writer of records that stands for the guest's."""

from __future__ import annotations

import errno
import struct

from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KAddr
from kpfs.engine.arch.x86.regs import CallRegisters
from kpfs.engine.runtime.runtime import Runtime
from kpfs.engine.state import State
from kpfs.engine.trace.array.trace_state import TraceState
from kpfs.engine.trace.event.trace_event import TraceEvent
from kpfs.engine.trace.probe.trace_kprobe import TraceKprobeOps
from tests.fake import PAGE, FakeArch, FakeMachine

RUNTIME_BASE = 0xFFFFFFFFC2000000
RUNTIME_SYMBOLS = (
    "kp_config",
    "kp_fixups",
    "kp_extable",
    "arch_rethook_trampoline",
    "kp_event_handler",
    "kp_event_return",
    "kp_fn_arrays",
    "kp_fn_probe_arrays",
    "kp_follow_fork",
)


class TraceMachine(FakeMachine):
    """A fake machine with the symbols of a runtime image."""

    def __init__(self, nr_cpus: int = 2) -> None:
        super().__init__(nr_cpus)
        self.map(RUNTIME_BASE, bytes(PAGE))
        for name in ("vfs_read", "vfs_write", "ksys_read", "ksys_write", "vfs_open"):
            self.add_function(name)
        self.add_function("plain", ftrace=False)
        self.add_function("twice")
        self.add_function("twice")
        self.add_symbol("jiffies", 0xFFFFFFFF82000000, 8)
        for i, name in enumerate(RUNTIME_SYMBOLS):
            self.runtime_image.there[name] = KAddr(RUNTIME_BASE + 256 * i)


class TraceArch(FakeArch):
    """A fake architecture with the registers of x86-64."""

    calls = CallRegisters()


class Trace:
    """A tracer with its events on fakes of all below it."""

    def __init__(self, nr_cpus: int = 2) -> None:
        self.machine = TraceMachine(nr_cpus)
        self.arch = TraceArch(self.machine)
        self.st = State(self.machine, self.arch)
        self.runtime = Runtime(self.machine)
        self.ts = TraceState(self.st, self.runtime)
        self.ops = TraceKprobeOps(self.ts)

    def write(self, text: str) -> str:
        """Write once to kprobe_events; return "" or the name of the errno."""
        try:
            self.ts.dyn_events.run_commands(text.encode("latin-1"), self.ops)
        except KernelError as error:
            return errno.errorcode[error.errno]
        return ""

    def show(self) -> str:
        return self.ts.dyn_events.show(self.ops)

    def on(self, name: str, group: str = "kprobes") -> None:
        self.ts.array_events.enable_store(self.event(name, group), b"1\n")

    def off(self, name: str, group: str = "kprobes") -> None:
        self.ts.array_events.enable_store(self.event(name, group), b"0\n")

    def event(self, name: str, group: str = "kprobes"):
        event = self.ts.events.find(group, name)
        assert event is not None
        return event

    def file(self, name: str, group: str = "kprobes"):
        """Return an event's file in the first trace array."""
        return self.ts.array_events.file(self.event(name, group))

    def errors(self) -> list[str]:
        """Texts and columns of the error log: "TEXT @ column in COMMAND"."""
        lines = self.ts.err_log.text().splitlines()
        found = []
        for text, command, caret in zip(*[iter(lines)] * 3, strict=True):
            what, column = text.partition("error: ")[2], caret.index("^") - 11
            found.append(f"{what} @ {column} in {command[11:]}")
        return found


class Writer:
    """Writes records into a CPU's ring, at times of its own."""

    def __init__(self, trace: Trace, cpu: int = 0) -> None:
        self.ring = trace.ts.ring.cpus[cpu]
        self._machine = trace.machine

    def write(self, ts: int, data: bytes) -> bool:
        """False if the buffer is full and keeps the oldest."""
        now, self._machine.clock.time = self._machine.clock.time, ts
        written = self.ring.write(data)
        self._machine.clock.time = now
        return written


def record(event_id: int, *fields: int, pid: int = 7, flags: int = 0, pc: int = 0):
    """A record of 64-bit fields."""
    return struct.pack(f"<HBBi{len(fields)}Q", event_id, flags, pc, pid, *fields)


def filter_store(trace: TraceState, event: TraceEvent, text: str) -> str:
    """Set an event's filter: "" or the name of the errno."""
    try:
        trace.array_events.filter_store(event, text.encode("latin-1"))
    except KernelError as error:
        return errno.errorcode[error.errno]
    return ""
