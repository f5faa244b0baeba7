# SPDX-License-Identifier: GPL-2.0-or-later
"""kallsyms, version, cmdline, kmsg, and messages, the log as a file."""

from __future__ import annotations

import errno
import re
import time

from kpfs.backends.guest.files.addresses import OpenedAddressHandle
from kpfs.backends.guest.files.guest_file import GuestFile, GuestServed
from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.base.errors import KernelError
from kpfs.base.typed import TYPE_CHECKING
from kpfs.base.units import UTS_LENGTH
from kpfs.fs.node import READABLE, Handle
from kpfs.fs.seqfile import SeqFile
from kpfs.fs.traits import Posthumous, Vital

if TYPE_CHECKING:
    from kpfs.guest.running.klog import LogRecord

LOG_LINE_MAX = 1024 - 32
DEFAULT_LEVEL = 4  # KERN_WARNING
LOG_USER = 1  # the facility of what the kernel did not write itself
# struct new_utsname: the numbers of its fields, and their length
UTS_SYSNAME, UTS_NODENAME, UTS_RELEASE, UTS_VERSION = 0, 1, 2, 3
STRING_MAX = 256
_PREFIX = rb"<([0-9]*)>"
_UNPRINTABLE = rb"[^ -~]|\\"


def guest_string(kernel: GuestKernel, symbol: str, offset: int) -> bytes:
    """Return a string in the guest's memory; ENOENT: it has no such symbol."""
    addr = kernel.guest.address_of(symbol)
    if addr is None:
        raise KernelError(errno.ENOENT, f"the guest has no {symbol}")
    return kernel.guest.memory.read_cstring(addr + offset, STRING_MAX)


class ProcFile(GuestFile, SeqFile):
    """A text in /proc.  Kernel: proc_reg_write() without a proc_write."""

    blksize = 1024

    def store(self, data: bytes) -> int | None:
        raise KernelError(errno.EIO, "not for writing")


class KallsymsFile(ProcFile):
    """All symbols of the guest.  Kernel: s_show() in kernel/kallsyms.c."""

    handle_type = OpenedAddressHandle

    def show(self) -> str:
        return "".join(
            [
                f"{s.addr:016x} {s.type} {s.name}"
                + (f"\t[{s.module}]\n" if s.module else "\n")
                for s in self.kernel.guest.kallsyms
            ]
        )


class Version(GuestServed, ProcFile):
    """The guest's version line.  Kernel: version_proc_show()."""

    splices_from = True

    def show(self) -> bytes:
        banner = guest_string(self.kernel, "linux_proc_banner", 0)
        for name in (UTS_SYSNAME, UTS_RELEASE, UTS_VERSION):
            banner = banner.replace(b"%s", uts_name(self.kernel, name), 1)
        return banner


class Cmdline(GuestServed, ProcFile):
    """The guest's boot parameters.  Kernel: cmdline_proc_show()."""

    splices_from = True

    def show(self) -> bytes:
        guest = self.kernel.guest
        addr = guest.address_of("saved_command_line")
        if addr is None:
            raise KernelError(errno.ENOENT, "the guest has no command line")
        return guest.read_cstring(guest.read_u64(addr), STRING_MAX) + b"\n"


def uts_name(kernel: GuestKernel, field: int) -> bytes:
    """Return a field of the guest's uname().  Kernel: init_uts_ns"""
    return guest_string(kernel, "init_uts_ns", field * UTS_LENGTH)


class ModulesFile(ProcFile, Vital):
    """The modules that are loaded, newest first.  Kernel: m_show()."""

    handle_type = OpenedAddressHandle

    def show(self) -> str:
        return self.kernel.guest.modules.show()


class KmsgHandle(Handle):
    """One reader of the kernel log; each read gives one record.

    A module may log each read, so that a reader would never reach the end.  One that
    does not wait is therefore told EAGAIN once it has read what it found when it last
    asked.  Kernel: devkmsg_read()
    """

    file: GuestFile

    def __init__(self, file: GuestFile, flags: int, pid: int) -> None:
        super().__init__(file, flags, pid)
        self.seq = 0
        self.pending: list[LogRecord] = []  # newest first
        self.at_end = False

    def fill(self) -> None:
        if not self.pending:
            self.at_end = False
            self.pending = self.file.kernel.guest.log.records(self.seq)[::-1]

    def ready(self) -> bool:
        return bool(self.pending) or self.news() > self.seq

    def poll(self) -> int:
        return READABLE if self.ready() else 0

    def news(self) -> int:
        return self.file.kernel.guest.log.next_seq()

    def read(self, size: int, offset: int) -> bytes:
        at_end = self.at_end
        self.fill()
        if not self.pending or at_end:
            raise KernelError(errno.EAGAIN, "no more records")
        record = self.pending[-1]
        raw = bytes(record.text)
        text = re.sub(_UNPRINTABLE, lambda c: b"\\x%02x" % c[0][0], raw)
        priority = record.facility << 3 | record.level
        fields = priority, record.seq, record.ts_nsec // 1000, text
        line = b"%d,%d,%d,-;%s\n" % fields
        self.pending.pop()
        self.seq = record.seq + 1
        self.at_end = self.nonblock and not self.pending
        if len(line) > size:
            raise KernelError(errno.EINVAL, "the record does not fit")
        return line


class Kmsg(GuestFile, Posthumous, Vital):
    """The kernel log, and a way to write into it.  Kernel: kmsg_fops."""

    handle_type = KmsgHandle
    nonseekable = True
    write_moves = 0
    write_iter = True

    def may_pwrite(self, flags: int) -> bool:
        """Return True: it does not matter where it is written."""
        return True

    def store(self, data: bytes) -> None:
        """Take ``<N>TEXT`` as one record; N is 8 times the facility, plus the level.

        Kernel: devkmsg_write()
        """
        if len(data) > LOG_LINE_MAX:
            raise KernelError(errno.EINVAL, "the line is too long")
        text = data.split(b"\0", 1)[0]
        facility, level = LOG_USER, DEFAULT_LEVEL
        prefix = re.match(_PREFIX, text)
        if prefix:
            # of an overflow the low bits remain
            number = int(prefix[1] or b"0")
            facility, level = number >> 3 & 0xFF or facility, number & 7
            text = text[prefix.end() :]
        self.kernel.guest.log.store(facility, level, text.removesuffix(b"\n"))
        self.kernel.background.follower.look()


class Messages(GuestFile, SeqFile, Posthumous, Vital):
    """The kernel log as a syslog daemon of 2006 writes it: /var/log/messages."""

    grows = True

    def show(self) -> bytes:
        guest = self.kernel.guest
        host = uts_name(self.kernel, UTS_NODENAME)
        lines = []
        for record in guest.log.records():
            seconds = guest.clock.boot_time + record.ts_nsec // 10**9
            when = time.strftime("%b %e %H:%M:%S", time.localtime(seconds)).encode()
            lines.append(b"%s %s kernel: %s\n" % (when, host, bytes(record.text)))
        return b"".join(lines)
