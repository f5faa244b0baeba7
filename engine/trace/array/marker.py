# SPDX-License-Identifier: GPL-2.0-or-later
"""The files trace_marker and trace_marker_raw: what users write into the trace."""

from __future__ import annotations

import errno
import struct

from kpfs.base.errors import KernelError
from kpfs.engine.machine import Machine
from kpfs.engine.trace.array.trace_array import TraceArray
from kpfs.engine.trace.event.fields import Field, string_at
from kpfs.engine.trace.event.trace_event import FtraceEvent, Printer, SymbolText

TRACE_PRINT = 5
MARKER_FUNCTION = "tracing_mark_write"
TRACE_RAW_DATA = 16
TRACE_BUF_SIZE = 1024
RAW_DATA_MAX_SIZE = 3072
FAULTED_SIZE = 9  # the size of "<faulted>", which Linux keeps room for
TAG_SIZE = 4
_HEAD = struct.Struct("<HBBi")
_IP = struct.Struct("<Q")


class PrintEvent(FtraceEvent):
    """The event of trace_marker.  Kernel: TRACE_PRINT, trace_print_event."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(
            "print",
            TRACE_PRINT,
            '"%ps: %s", (void *)REC->ip, REC->buf',
            Field("unsigned long", "ip", 8, 8, False),
            Field("char", "buf[]", 16, 0, True),
        )
        found = machine.kallsyms.lookup_name(MARKER_FUNCTION)
        self.ip = found[0].addr if found else 0

    def printer(self, symbol: SymbolText) -> Printer:
        """Kernel: trace_print_print()"""

        def show(pages: memoryview, record: int) -> str:
            (ip,) = struct.unpack_from("<Q", pages, record + 8)
            return f"{symbol(ip, False)}: {string_at(pages, record + 16)}"

        return show


def write_marker(array: TraceArray, data: bytes) -> int:
    """Record a write to trace_marker and return the number of bytes taken.

    EINVAL: the option markers is off; EBADF: the ring had no room, or is off.
    Context: control.  Kernel: tracing_mark_write()
    """
    if not array.options["markers"]:
        raise KernelError(errno.EINVAL, "markers are switched off")
    event = array.events.find("ftrace", "print")
    assert isinstance(event, PrintEvent)
    text = data[:TRACE_BUF_SIZE]
    taken = len(text)
    if not text.endswith(b"\n"):
        text += b"\n"
    room = max(taken, FAULTED_SIZE) + 2
    _write(array, TRACE_PRINT, _IP.pack(event.ip) + text.ljust(room, b"\0"))
    return taken


class RawDataEvent(FtraceEvent):
    """The event of trace_marker_raw.  Kernel: TRACE_RAW_DATA, trace_raw_data_event."""

    def __init__(self) -> None:
        super().__init__(
            "raw_data",
            TRACE_RAW_DATA,
            '"id:%04x %08x", REC->id, (int)REC->buf[0]',
            Field("unsigned int", "id", 8, 4, False),
            Field("char", "buf[]", 12, 0, True),
        )

    def printer(self, symbol: SymbolText) -> Printer:
        """Kernel: trace_raw_data()"""

        def show(record: memoryview, start: int) -> str:
            (tag,) = struct.unpack_from("<I", record, start + 8)
            return f"# {tag:x} buf: {bytes(record[start + 12 :]).hex(' ')}\n"

        return show


def write_raw_marker(array: TraceArray, data: bytes) -> int:
    """Record a write to trace_marker_raw and return the number of bytes taken.

    EINVAL: the option markers is off, or the data are too long or shorter than a tag;
    EBADF: the ring had no room, or is off.
    Context: control.  Kernel: tracing_mark_raw_write()
    """
    if not array.options["markers"]:
        raise KernelError(errno.EINVAL, "markers are switched off")
    if not TAG_SIZE <= len(data) <= RAW_DATA_MAX_SIZE:
        raise KernelError(errno.EINVAL, f"{len(data)} bytes")
    data = data[:TRACE_BUF_SIZE]
    room = TAG_SIZE + max(len(data), FAULTED_SIZE + TAG_SIZE)
    _write(array, TRACE_RAW_DATA, data.ljust(room, b"\0"))
    return len(data)


def _write(array: TraceArray, kind: int, data: bytes) -> None:
    """Write a record of the current task; EBADF."""
    machine = array.st.machine
    cpu, task = machine.cpu(), machine.current()
    if not array.ring.write(cpu, _HEAD.pack(kind, 0, 0, task.pid) + data):
        raise KernelError(errno.EBADF, "no place in the ring")
    array.runtime.save_cmdline(task.pid, task.comm)
