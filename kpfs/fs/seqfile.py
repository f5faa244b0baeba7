# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's ways to read and write a file: whole texts, values, sysctls, records."""

from __future__ import annotations

import errno
import os

from kpfs.base.errors import KernelError
from kpfs.engine.kstrtox import proc_dointvec_minmax
from kpfs.fs.node import PROC_SYS, File, Handle, encode

# Most bytes of a request of FUSE: a longer write comes in pieces of this size, which
# are up to a page shorter if they do not begin with a page.
MAX_WRITE = 131072
WHOLE_MAX = MAX_WRITE - 4096


class SeqHandle(Handle):
    """The text is made at the first read and after a seek, then kept.

    Kernel: seq_read(), seq_lseek()
    """

    file: SeqFile
    text: bytes | None = None
    pos = 0  # position of the next read, in text

    def make(self) -> bytes:
        """Return the text as it stands."""
        return encode(self.file.show())

    def read(self, size: int, offset: int) -> bytes:
        offset = self.tell(offset)
        if self.text is None or offset == 0 or offset != self.pos:
            self.text = self.make()
        elif self.file.grows and offset == len(self.text):
            records = self.text.count(b"\n")
            self.text += b"".join(self.make().splitlines(keepends=True)[records:])
        data = self.text[offset : offset + size]
        self.pos = offset + len(data)
        return data

    def seek_end(self) -> None:
        if self.file.tracing_lseek and self.flags & os.O_ACCMODE == os.O_WRONLY:
            return
        raise KernelError(errno.EINVAL, "seq_file knows no end")


class SeqFile(File):
    """A text of lines, as of the time when its reading began."""

    handle_type: type[Handle] = SeqHandle
    # SEEK_END is for readers alone an error.  Kernel: tracing_lseek()
    tracing_lseek = False
    grows = False  # a reader at the end gets the records that are added
    seq_for_writers = True  # False: an open for writing alone makes no seq_file

    def may_pwrite(self, flags: int) -> bool:
        """Return True without a seq_file.  Kernel: seq_open() clears FMODE_PWRITE."""
        return not self.seq_for_writers and flags & os.O_ACCMODE == os.O_WRONLY


class ValueHandle(Handle):
    """The text is made afresh for each read.  Kernel: simple_read_from_buffer()."""

    def make(self) -> bytes:
        """Return the text as it stands."""
        return encode(self.file.show())

    def read(self, size: int, offset: int) -> bytes:
        offset = self.tell(offset)
        return self.make()[offset : offset + size]


class ValueFile(File):
    """A short value; where a write is made does not matter."""

    handle_type: type[Handle] = ValueHandle


class OnceHandle(ValueHandle):
    """A reader that gets the value from the start, and nothing behind it."""

    def read(self, size: int, offset: int) -> bytes:
        return b"" if self.tell(offset) else super().read(size, offset)


class SysctlHandle(OnceHandle):
    """A reader and writer only from the start.  Kernel: proc_dointvec_minmax()."""

    def take(self, data: bytes, pos: int) -> int:
        if pos or not data:
            return len(data)  # sysctl_writes_strict: dropped, but not refused
        return super().take(data, pos)


class Sysctl(File):
    """An integer below /proc/sys."""

    handle_type = SysctlHandle
    fs = PROC_SYS
    blksize = 1024
    write_iter = True
    splices_from = splices_into = True
    low = 0
    high = 1

    def get(self) -> int:
        raise NotImplementedError

    def set(self, value: int) -> None:
        raise NotImplementedError

    def show(self) -> str:
        return f"{self.get()}\n"

    def store(self, data: bytes) -> int:
        value, used = proc_dointvec_minmax(data, self.low, self.high)
        self.set(value)
        return used

    def truncate(self, size: int) -> None:
        """Ignore it: the size stays 0."""


def whole_lines(data: bytes) -> bytes:
    """Return what to take of a write of lines: all of it, unless FUSE has cut it.

    A write longer than WHOLE_MAX may come in pieces.  Of a piece that ends within a
    line its whole lines are taken; the caller then repeats the rest, as after any short
    write.
    """
    if len(data) <= WHOLE_MAX or b"\n" not in data:
        return data
    return data[: data.rindex(b"\n") + 1]
