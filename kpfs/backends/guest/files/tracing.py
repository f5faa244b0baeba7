# SPDX-License-Identifier: GPL-2.0-or-later
"""tracing/: the trace itself, and the files that switch it and set its size."""

from __future__ import annotations

import errno
import stat
from collections.abc import Callable

from kpfs.backends.guest.files import buffers
from kpfs.backends.guest.files.array_file import ArrayFile, CpuFile
from kpfs.backends.guest.files.text_handle import TextFile, TextHandle
from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import MASK64
from kpfs.base.typed import TYPE_CHECKING
from kpfs.base.units import NSEC
from kpfs.engine.kstrtox import kstrtoul_from_user
from kpfs.fs.node import READABLE, Dir, File, Handle, encode
from kpfs.fs.seqfile import ValueFile

if TYPE_CHECKING:
    from kpfs.engine.trace.ring.ring_buffer import RingBuffer

RING_MAX_KB = 1 << 20


class TraceHandle(TextHandle):
    """A reader; with the option pause-on-trace nothing is recorded until it is closed.

    Kernel: tracing_open(), tracing_release()
    """

    file: Trace

    def __init__(self, file: Trace, flags: int, pid: int) -> None:
        super().__init__(file, flags, pid)
        self.paused = self.iterator is not None and file.tr.options["pause-on-trace"]
        if self.paused:
            file.tr.ring.pause(True)

    def release(self) -> None:
        if self.paused:
            self.file.tr.ring.pause(False)
        super().release()


class Trace(TextFile):
    """The records, left in the buffer; O_TRUNC clears it.  Kernel: tracing_fops."""

    handle_type = TraceHandle
    splices_from = True
    write_moves = 0

    def emptied(self) -> None:
        ring = self.tr.ring
        (ring if self.cpu is None else ring.cpus[self.cpu]).reset()

    def store(self, data: bytes) -> None:
        """Ignored."""


class TracePipeHandle(Handle):
    """One consuming reader.  Kernel: tracing_read_pipe()."""

    file: TracePipeFile

    def __init__(self, file: TracePipeFile, flags: int, pid: int) -> None:
        from kpfs.engine.trace.text.output import TracePipe

        super().__init__(file, flags, pid)
        self.pipe = TracePipe(file.tr, file.cpu)

    def poll(self) -> int:
        tr, cpu = self.file.tr, self.file.cpu
        if cpu is None:
            return READABLE if self.pipe.ready() else 0
        return buffers.full_hit(tr.ring.cpus[cpu], tr.buffer_percent)

    def news(self) -> object:
        return self.pipe.written()

    def ready(self) -> bool:
        """Return True if there are records, or a reader that had some is at the end."""
        return self.pipe.ready() or self.pipe.at_end()

    def prepare(self, size: int, offset: int) -> None:
        self.pipe.prepare(self.file.kernel.lock, size)

    def read(self, size: int, offset: int) -> bytes:
        text = encode(self.pipe.read(size))
        if not text and not self.pipe.at_end():
            raise KernelError(errno.EAGAIN, "no record is left")
        return text

    def splice(self, size: int, offset: int, nonblock: bool) -> bytes:
        """Return whole lines.  Kernel: tracing_splice_read_pipe()"""
        if not self.pipe.ready():
            raise KernelError(errno.EAGAIN, "no record is left")
        return encode(self.pipe.read(size, whole=True))

    def splice_ready(self, since: int | None) -> bool:
        return self.pipe.ready()


class TracePipeFile(CpuFile):
    """The records, taken out of the buffer; waits for more.

    Kernel: tracing_pipe_fops
    """

    handle_type = TracePipeHandle
    nonseekable = splices_from = True

    def cpus(self) -> set[int]:
        """Return the CPUs whose records it takes."""
        everyone = range(self.kernel.guest.nr_cpus)
        return set(everyone) if self.cpu is None else {self.cpu}

    def opened(self, flags: int) -> None:
        """Take the records of its CPUs; EBUSY: another reader takes one's.

        Kernel: open_pipe_on_cpu()
        """
        if self.tr.pipes & self.cpus():
            raise KernelError(errno.EBUSY, "there is another reader")
        self.tr.pipes |= self.cpus()
        super().opened(flags)

    def closed(self, handle: Handle) -> None:
        self.tr.pipes -= self.cpus()
        super().closed(handle)


class TracingOn(ArrayFile, ValueFile):
    """The switch that lets records be written.  Kernel: rb_simple_fops."""

    write_moves = 1

    def show(self) -> str:
        return f"{int(self.tr.ring.on)}\n"

    def store(self, data: bytes) -> None:
        self.tr.ring.on = bool(kstrtoul_from_user(data, 10))


class CpuStats(CpuFile, ValueFile):
    """per_cpu/cpuN/stats.  Kernel: tracing_stats_read()."""

    cpu: int

    def show(self) -> str:
        ring = self.tr.ring.cpus[self.cpu]
        stats = ring.stats()
        text = stamp if self.tr.ring.in_ns else str
        return (
            f"entries: {stats.entries}\noverrun: {stats.overrun}\n"
            f"commit overrun: 0\nbytes: {stats.bytes}\n"
            f"oldest event ts: {text(stats.oldest_ts)}\n"
            f"now ts: {text(ring.now())}\n"
            f"dropped events: {stats.dropped}\nread events: {stats.read}\n"
        )


def stamp(ns: int) -> str:
    """Return seconds and microseconds, as the kernel prints them."""
    return f"{ns // NSEC:5d}.{ns % NSEC // 1000:06d}"


class BufferSize(CpuFile, ValueFile):
    """buffer_size_kb, of all CPUs or of one.  Kernel: tracing_entries_fops."""

    def show(self) -> str:
        ring = self.tr.ring
        if self.cpu is not None:
            return f"{kilobytes(ring.nr_pages[self.cpu])}\n"
        sizes = set(map(kilobytes, ring.nr_pages))
        if len(sizes) > 1:
            return "X\n"
        return f"{sizes.pop()}{expansion(ring, 1)}\n"

    def store(self, data: bytes) -> None:
        from kpfs.engine.trace.ring.cpu_ring import pages_for

        size = kstrtoul_from_user(data, 10)
        if not size:
            raise KernelError(errno.EINVAL, "no room for any record")
        size = size << 10 & MASK64
        if pages_for(size) > pages_for(RING_MAX_KB << 10):
            raise KernelError(errno.ENOMEM, "more than the guest has")
        try:
            self.tr.ring.resize(size, self.cpu)
        except KernelError as error:  # EBUSY too.  Kernel: tracing_resize_ring_buffer()
            raise KernelError(errno.ENOMEM, error.why) from error


class BufferTotalSize(ArrayFile, ValueFile):
    """buffer_total_size_kb.  Kernel: tracing_total_entries_read()."""

    def show(self) -> str:
        ring = self.tr.ring
        size = sum(map(kilobytes, ring.nr_pages))
        return f"{size}{expansion(ring, len(ring.cpus))}\n"


def kilobytes(nr_pages: int) -> int:
    """Return the room for records in so many pages of a ring."""
    from kpfs.engine.trace.ring.cpu_ring import BUF_PAGE_SIZE

    return nr_pages * BUF_PAGE_SIZE >> 10


def expansion(ring: RingBuffer, cpus: int) -> str:
    """Return a ring's words on the size that it gets when it is first needed."""
    from kpfs.engine.trace.ring.cpu_ring import TRACE_BUF_SIZE_DEFAULT

    size = (TRACE_BUF_SIZE_DEFAULT >> 10) * cpus
    return "" if ring.expanded else f" (expanded: {size})"


class PerCpuDir(Dir):
    """per_cpu/, with a directory for each CPU."""

    def __init__(self, kernel: GuestKernel) -> None:
        super().__init__()
        for cpu in range(kernel.guest.nr_cpus):
            folder = self.children[f"cpu{cpu}"] = Dir(stat.S_IFDIR | 0o750)
            for name, mode, kind in CPU_FILES:
                folder.add(name, mode, kind(kernel, cpu))


CPU_FILES: tuple[tuple[str, int, Callable[[GuestKernel, int], File]], ...] = (
    ("trace", 0o640, Trace),
    ("trace_pipe", 0o440, TracePipeFile),
    ("trace_pipe_raw", 0o440, buffers.TracePipeRaw),
    ("stats", 0o440, CpuStats),
    ("buffer_size_kb", 0o640, BufferSize),
    ("snapshot", 0o640, buffers.SnapshotFile),
    ("snapshot_raw", 0o440, buffers.SnapshotRaw),
)
