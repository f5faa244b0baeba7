# SPDX-License-Identifier: GPL-2.0-or-later
"""What users write into the trace."""

from __future__ import annotations

import errno
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.errors import KernelError
from engine.machine import Machine
from engine.trace.events import Printer, SymbolText, TraceEvent
from engine.trace.fields import Field

if TYPE_CHECKING:
    from engine.trace.array import TraceArray

TRACE_PRINT = 5
MARKER_FUNCTION = "tracing_mark_write"
TRACE_BUF_SIZE = 1024
_HEAD = struct.Struct("<HBBiQ")


class PrintEvent(TraceEvent):
    """Kernel: TRACE_PRINT, trace_print_event."""

    ignore_enable = True

    def __init__(self, machine: Machine) -> None:
        super().__init__("ftrace", "print")
        self.id = TRACE_PRINT
        found = machine.lookup_name(MARKER_FUNCTION)
        self.ip = found[0].addr if found else 0

    def fields(self) -> Sequence[Field]:
        return (
            Field("unsigned long", "ip", 8, 8, False),
            Field("char", "buf[]", 16, 0, True),
        )

    def print_fmt(self) -> str:
        return '"%ps: %s", (void *)REC->ip, REC->buf'

    def printer(self, symbol: SymbolText) -> Printer:
        """Kernel: trace_print_print()"""

        def show(pages: memoryview, record: int) -> str:
            (ip,) = struct.unpack_from("<Q", pages, record + 8)
            start = record + 16
            end = (start // 4096 + 1) * 4096
            text = bytes(pages[start:end]).partition(b"\0")[0].decode("latin-1")
            return f"{symbol(ip, False)}: {text}"

        return show


def write_marker(array: TraceArray, data: bytes) -> int:
    """A write to trace_marker, as a record; the bytes taken.

    EINVAL: the option markers is off; EBADF: there was no room.
    Context: control.  Kernel: tracing_mark_write()
    """
    if not array.options["markers"]:
        raise KernelError(errno.EINVAL, "markers are switched off")
    event = array.events.find("ftrace", "print")
    assert isinstance(event, PrintEvent)
    text = data[:TRACE_BUF_SIZE]
    taken = len(text)
    machine = array.st.machine
    if not text.endswith(b"\n"):
        text += b"\n"
    cpu, task = machine.cpu(), machine.current()
    head = _HEAD.pack(TRACE_PRINT, 0, 0, task.pid, event.ip)
    if not array.ring.write(cpu, head + text + b"\0"):
        raise KernelError(errno.EBADF, "no place in the ring")
    array.runtime.save_cmdline(task.pid, task.comm)
    return taken
