# SPDX-License-Identifier: GPL-2.0-or-later
"""tracing/: clocks, CPUs and memory of the rings, snapshots, binary pages."""

from __future__ import annotations

import errno
import re
from contextlib import suppress

from kpfs.backends.guest.files.array_file import ArrayFile, CpuFile
from kpfs.backends.guest.files.guest_file import GuestFile
from kpfs.backends.guest.files.text_handle import TextFile, TextHandle
from kpfs.base import abi
from kpfs.base.errors import KernelError
from kpfs.base.typed import TYPE_CHECKING
from kpfs.base.units import PAGE_SIZE
from kpfs.engine.kstrtox import kstrtoul_from_user
from kpfs.fs.node import DEFAULT_POLLMASK, READABLE, Handle
from kpfs.fs.seqfile import OnceHandle, SeqFile, ValueFile, ValueHandle

if TYPE_CHECKING:
    from kpfs.engine.trace.ring.cpu_ring import CpuRing

BLANKS = b" \t\n\v\f\r\xa0"  # isspace()
CLOCK_NAME_MAX = 64
HEX_DIGITS = b"0123456789abcdefABCDEF"
CPUMASK_CHUNK = 32  # bits of a group of hexadecimal digits

SNAPSHOT_HELP = """\
# * Snapshot is {state} *
#
# Snapshot commands:
"""
SNAPSHOT_COMMANDS = """\
# echo 0 > snapshot : Clears and frees snapshot buffer
# echo 1 > snapshot : Allocates snapshot buffer, if not already allocated.
#                      Takes a snapshot of the main buffer.
# echo 2 > snapshot : Clears snapshot buffer (but does not allocate or free)
#                      (Doesn't have to be '2' works with any number that
#                       is not a '0' or '1')
"""
CPU_SNAPSHOT_COMMANDS = """\
# echo 0 > snapshot : Invalid for per_cpu snapshot file.
# echo 1 > snapshot : Not supported with this kernel.
#                     Must use main snapshot file to allocate.
# echo 2 > snapshot : Clears this cpu's snapshot buffer (but does not allocate)
#                      (Doesn't have to be '2' works with any number that
#                       is not a '0' or '1')
"""


class TraceClock(ArrayFile, SeqFile):
    """The clock of the records.  Kernel: trace_clock_fops."""

    def show(self) -> str:
        from kpfs.engine.trace.array.trace_array import CLOCKS

        names = [f"[{name}]" if name == self.tr.clock else name for name in CLOCKS]
        return " ".join(names) + "\n"

    def store(self, data: bytes) -> None:
        if len(data) >= CLOCK_NAME_MAX:
            raise KernelError(errno.EINVAL, "too long for a clock")
        name = data.split(b"\0", 1)[0].strip(BLANKS)
        self.tr.set_clock(name.decode("latin-1"))


class TimestampMode(GuestFile, SeqFile):
    """Kernel: tracing_time_stamp_mode_fops"""

    def show(self) -> str:
        return "[delta] absolute\n"


class CpumaskHandle(ValueHandle):
    """A reader, which is refused less than the whole mask.

    Kernel: tracing_cpumask_read()
    """

    def read(self, size: int, offset: int) -> bytes:
        if size <= len(self.file.show()):
            raise KernelError(errno.EINVAL, f"no room in {size} bytes")
        return super().read(size, offset)


class TracingCpumask(ArrayFile, ValueFile):
    """The CPUs that record, as a hexadecimal mask.  Kernel: tracing_cpumask_fops."""

    handle_type = CpumaskHandle
    write_moves = 0

    def show(self) -> str:
        digits = -(-self.kernel.guest.nr_cpus // 4)
        return f"{self.tr.ring.mask:0{digits}x}\n"

    def store(self, data: bytes) -> None:
        if not data:
            raise KernelError(errno.EINVAL, "empty")
        self.tr.ring.set_mask(cpumask_parse(data, self.kernel.guest.nr_cpus))


def cpumask_parse(data: bytes, nr_cpus: int) -> int:
    """Parse groups of up to 8 digits, the lowest last; EINVAL, EOVERFLOW.

    Any number of blanks and commas parts them.  Kernel: bitmap_parse()
    """
    text = re.split(rb"[\n\0]", data, maxsplit=1)[0]
    groups = re.split(rb"[ \t\v\f\r\xa0,]+", text)
    mask, chunks = 0, -(-nr_cpus // CPUMASK_CHUNK)
    for place, group in enumerate(reversed([g for g in groups if g])):
        if place == chunks:
            raise KernelError(errno.EOVERFLOW, "there are not so many CPUs")
        digits = group[-CPUMASK_CHUNK // 4 :]
        if digits.strip(HEX_DIGITS):
            raise KernelError(errno.EINVAL, f"no mask: {group[:40]!r}")
        if len(group) > len(digits) and group[-len(digits) - 1] in HEX_DIGITS:
            raise KernelError(errno.EOVERFLOW, "more than 32 bits in a group")
        if len(group) > len(digits):
            raise KernelError(errno.EINVAL, f"no mask: {group[:40]!r}")
        mask |= int(digits, 16) << CPUMASK_CHUNK * place
    if mask >> nr_cpus:
        raise KernelError(errno.EOVERFLOW, "there are not so many CPUs")
    return mask


class BufferPercent(ArrayFile, ValueFile):
    """The fill of a CPU's ring that poll() waits for.  Kernel: buffer_percent_fops."""

    write_moves = 1

    def show(self) -> str:
        return f"{self.tr.buffer_percent}\n"

    def store(self, data: bytes) -> None:
        value = kstrtoul_from_user(data, 10)
        if value > 100:
            raise KernelError(errno.EINVAL, f"{value} per cent")
        self.tr.buffer_percent = value


class FreeBuffer(ArrayFile):
    """Closing it gives back the rings' memory.  Kernel: tracing_free_buffer_fops."""

    nonseekable = True

    def store(self, data: bytes) -> None:
        """Ignored."""

    def closed(self, handle: Handle) -> None:
        super().closed(handle)
        if self.tr.options["disable_on_free"]:
            self.tr.ring.on = False
        with suppress(KernelError):  # while somebody reads, it stays as it is
            self.tr.ring.resize(0)


class SnapshotFile(TextFile):
    """The records that a snapshot has taken.  Kernel: snapshot_fops."""

    handle_type = TextHandle
    is_snapshot = True

    def help(self) -> str:
        """Return the text for no record.  Kernel: print_snapshot_help()"""
        state = "freed" if self.tr.ring.spare is None else "allocated"
        commands = SNAPSHOT_COMMANDS if self.cpu is None else CPU_SNAPSHOT_COMMANDS
        header = f"# tracer: {self.tr.current_tracer}\n#\n#\n"
        return header + SNAPSHOT_HELP.format(state=state) + commands

    def store(self, data: bytes) -> None:
        """Clear, take or free the snapshot.  Kernel: tracing_snapshot_write()"""
        value = kstrtoul_from_user(data, 10)
        ring = self.tr.ring
        self.tr.ring.expand()
        if self.cpu is not None and value < 2:
            raise KernelError(errno.EINVAL, "not for one CPU")
        if value == 0:
            ring.free_spare()
        elif value == 1:
            ring.alloc_spare()
            ring.swap()
        else:
            for spare in ring.spare or ():
                if self.cpu is None or spare.cpu == self.cpu:
                    spare.reset()


class RawHandle(Handle):
    """A reader of the pages of one CPU's ring.  Kernel: struct ftrace_buffer_info."""

    file: TracePipeRaw
    rest = b""  # rest of a page that was not read wholly

    def ready(self) -> bool:
        ring = self.file.ring()
        return bool(self.rest or (ring is not None and ring.entries))

    def poll(self) -> int:
        ring = self.file.ring()
        percent = self.file.tr.buffer_percent
        return 0 if ring is None else full_hit(ring, percent)

    def news(self) -> object:
        ring = self.file.ring()
        return None if ring is None else ring.written

    def read(self, size: int, offset: int) -> bytes:
        """Kernel: tracing_buffers_read()"""
        from kpfs.engine.trace.ring.cpu_ring import BUF_PAGE_HDR_SIZE

        ring = self.file.ring()
        if not self.rest:
            if ring is None or not ring.entries:
                raise KernelError(errno.EAGAIN, "no record is left")
            self.rest = ring.read_page(size - BUF_PAGE_HDR_SIZE)
        data, self.rest = self.rest[:size], self.rest[size:]
        return data

    def check_splice(self, size: int, offset: int) -> None:
        if offset % PAGE_SIZE or size < PAGE_SIZE:
            raise KernelError(errno.EINVAL, "not for parts of a page")

    def splice_waits(self, nonblock: bool) -> bool:
        return not (self.nonblock or nonblock)

    def splice_ready(self, since: int | None) -> bool:
        """After a wait the ring is to be as full as for poll().

        Linux 6.1 would turn in a circle if that is so and no page is full.
        """
        ring = self.file.ring()
        full = ring is not None and ring.has_full_page()
        enough = full and (since is None or bool(self.poll()))
        return enough or self.splice_ended(since)

    def splice_ended(self, since: int | None) -> bool:
        return not self.file.tr.ring.on or since not in (None, self.wakes)

    def splice(self, size: int, offset: int, nonblock: bool) -> bytes:
        """Return full pages alone.  Kernel: tracing_buffers_splice_read()"""
        ring, data = self.file.ring(), b""
        if ring is not None:
            while len(data) + PAGE_SIZE <= size and ring.has_full_page():
                data += ring.read_page()
        if not data:
            raise KernelError(errno.EAGAIN, "no page is full")
        return data

    def ioctl(self, command: int) -> None:
        """Wake the splices that wait.  Kernel: tracing_buffers_ioctl()"""
        if command:
            super().ioctl(command)
        self.wakes += 1


def full_hit(ring: CpuRing, percent: int) -> int:
    """Return READABLE if a ring is full enough to wake a poller, or 0.

    Kernel: ring_buffer_poll_wait(), full_hit()
    """
    if not percent:
        return READABLE if ring.entries else 0
    hit = (ring.dirty_pages + 1) * 100 >= percent * ring.nr_pages
    return READABLE if hit else 0


class TracePipeRaw(CpuFile):
    """per_cpu/cpuN/trace_pipe_raw: pages as the ring has them, taken out.

    Kernel: tracing_buffers_fops
    """

    handle_type = RawHandle
    nonseekable = splices_from = True
    cpu: int

    def ring(self) -> CpuRing | None:
        return self.tr.ring.cpus[self.cpu]


class SnapshotRawHandle(RawHandle):
    """A reader of a snapshot's pages.  Kernel: snapshot_raw_fops, which has no poll."""

    def poll(self) -> int:
        return DEFAULT_POLLMASK


class SnapshotRaw(TracePipeRaw):
    """per_cpu/cpuN/snapshot_raw: its pages.  Kernel: snapshot_raw_fops."""

    handle_type = SnapshotRawHandle

    def ring(self) -> CpuRing | None:
        rings = self.tr.ring.spare
        return None if rings is None else rings[self.cpu]


class HeaderPage(GuestFile, ValueFile):
    """events/header_page.  Kernel: ring_buffer_print_page_header()."""

    handle_type = OnceHandle

    def show(self) -> str:
        from kpfs.engine.trace.ring.cpu_ring import BUF_PAGE_HDR_SIZE, BUF_PAGE_SIZE

        rows = (
            ("u64 timestamp", 0, 8, 0),
            ("local_t commit", 8, 8, 1),
            ("int overwrite", 8, 1, 1),
            ("char data", BUF_PAGE_HDR_SIZE, BUF_PAGE_SIZE, 1),
        )
        return "".join(
            f"\tfield: {name};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n"
            for name, offset, size, signed in rows
        )


class HeaderEvent(GuestFile, ValueFile):
    """events/header_event: an entry.  Kernel: ring_buffer_print_entry_header()."""

    handle_type = OnceHandle

    def show(self) -> str:
        return (
            "# compressed entry header\n"
            f"\ttype_len    :    {32 - abi.DELTA_BITS} bits\n"
            f"\ttime_delta  :   {abi.DELTA_BITS} bits\n"
            "\tarray       :   32 bits\n\n"
            f"\tpadding     : type == {abi.TYPE_TIME_EXTEND - 1}\n"
            f"\ttime_extend : type == {abi.TYPE_TIME_EXTEND}\n"
            f"\ttime_stamp : type == {abi.TYPE_TIME_EXTEND + 1}\n"
            f"\tdata max type_len  == {abi.MAX_SMALL_DATA // 4}\n"
        )
