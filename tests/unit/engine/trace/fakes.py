# SPDX-License-Identifier: GPL-2.0-or-later
"""Kprobe events on fakes, and a writer of records that stands for the guest's."""

from __future__ import annotations

import errno
import struct

from kpfs.engine.arch.x86.regs import CallRegisters
from kpfs.engine.errors import KernelError
from kpfs.engine.ktypes import KAddr
from kpfs.engine.runtime.runtime import Runtime
from kpfs.engine.state import State
from kpfs.engine.trace.dynevent import TraceState
from kpfs.engine.trace.probe.trace_kprobe import TraceKprobeOps
from tests.fake import PAGE, FakeArch, FakeMachine

REGISTERS = (
    "r15 r14 r13 r12 bp bx r11 r10 r9 r8 ax cx dx si di orig_ax ip cs flags sp ss"
).split()
RUNTIME_BASE = 0xFFFFFFFFC2000000
RUNTIME_SYMBOLS = (
    "kp_config",
    "kp_fixups",
    "kp_extable",
    "kp_ret_trampoline",
    "kp_event_handler",
    "kp_event_return",
    "kp_fn_arrays",
    "kp_fn_probe_arrays",
)


class TraceMachine(FakeMachine):
    """With the symbols that the runtime image would have."""

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
    """With the registers of x86-64."""

    calls = CallRegisters()


class Trace:
    """All of it."""

    def __init__(self, nr_cpus: int = 2) -> None:
        self.machine = TraceMachine(nr_cpus)
        self.arch = TraceArch(self.machine)
        self.st = State(self.machine, self.arch)
        self.runtime = Runtime(self.machine)
        self.ts = TraceState(self.st, self.runtime)
        self.ops = TraceKprobeOps(self.ts)

    def write(self, text: str) -> str:
        """One write to kprobe_events: "" or the name of the errno."""
        try:
            self.ts.run_commands(text.encode("latin-1"), self.ops)
        except KernelError as error:
            return errno.errorcode[error.errno]
        return ""

    def show(self) -> str:
        return self.ts.show(self.ops)

    def on(self, name: str, group: str = "kprobes") -> None:
        self.ts.enable_store(self.event(name, group), b"1\n")

    def off(self, name: str, group: str = "kprobes") -> None:
        self.ts.enable_store(self.event(name, group), b"0\n")

    def event(self, name: str, group: str = "kprobes"):
        event = self.ts.events.find(group, name)
        assert event is not None
        return event

    def file(self, name: str, group: str = "kprobes"):
        """What the first trace array has of an event."""
        return self.ts.file(self.event(name, group))

    def errors(self) -> list[str]:
        """Texts and columns of the error log: "TEXT @ column in COMMAND"."""
        lines = self.ts.err_log.text().splitlines()
        found = []
        for text, command, caret in zip(*[iter(lines)] * 3, strict=True):
            what, column = text.partition("error: ")[2], caret.index("^") - 11
            found.append(f"{what} @ {column} in {command[11:]}")
        return found


FULL = 144  # offset in struct kp_ring


class Writer:
    """Writes records into a CPU's ring as the guest's code does."""

    def __init__(self, trace: Trace, cpu: int = 0) -> None:
        self.ring = trace.ts.ring.cpus[cpu]

    def _add(self, offset: int, value: int) -> None:
        self.ring._set(offset, self.ring._get(offset) + value)

    def _filling(self, page: int) -> int:
        """What Linux fills a page up with when nothing more fits."""
        commit = struct.unpack_from("<Q", self.ring.pages, page * PAGE + 8)[0]
        left = PAGE - 16 - commit
        return left if left >= 8 else 0

    def _next_page(self) -> bool:
        ring = self.ring
        tail, head, nr = ring._get(32), ring._get(16), ring.nr_pages
        following = (tail + 1) % nr
        if not ring._get(FULL):
            self._add(72, self._filling(tail))
        ring._set(FULL, 1)
        if following == head:
            if not ring._get(88):
                return False
            commit = struct.unpack_from("<Q", ring.pages, following * PAGE + 8)[0]
            self._add(56, ring._page_entries(following))
            self._add(72, ring._get(24) - commit - self._filling(following))
            ring._set(24, 0)
            ring._set(16, (following + 1) % nr)
        ring._set(32, following)
        ring._set(FULL, 0)
        ring._set_page_entries(following, 0)
        struct.pack_into("<QQ", ring.pages, following * PAGE, 0, 0)
        return True

    def write(self, ts: int, data: bytes) -> bool:
        """False if the buffer is full and keeps the oldest."""
        ring = self.ring
        data += bytes(-len(data) % 4)
        words = len(data) // 4
        delta = ts - ring._get(40)
        head = b""
        page = ring._get(32) * PAGE
        commit = struct.unpack_from("<Q", ring.pages, page + 8)[0]
        need = len(data) + (4 if words <= 28 else 8)
        need += 8 if delta >> 27 else 0
        if ring._get(FULL) or commit + need > PAGE - 16:
            if not self._next_page():
                self._add(96, 1)
                return False
            page, commit = ring._get(32) * PAGE, 0
        if commit == 0:
            struct.pack_into("<Q", ring.pages, page, ts)
            delta = 0
        if delta >> 27:
            low = delta & ((1 << 27) - 1)
            head = struct.pack("<II", 30 | low << 5, delta >> 27)
            delta = 0
        if words > 28:
            head += struct.pack("<II", delta << 5, len(data) + 4)
        else:
            head += struct.pack("<I", words | delta << 5)
        entry = head + data
        at = page + 16 + commit
        ring.pages[at : at + len(entry)] = entry
        struct.pack_into("<Q", ring.pages, page + 8, commit + len(entry))
        ring._set_page_entries(ring._get(32), ring._page_entries(ring._get(32)) + 1)
        self._add(72, len(entry))
        self._add(48, 1)
        ring._set(40, ts)
        return True


def record(event_id: int, *fields: int, pid: int = 7, flags: int = 0, pc: int = 0):
    """A record of 64-bit fields."""
    return struct.pack(f"<HBBi{len(fields)}Q", event_id, flags, pc, pid, *fields)
