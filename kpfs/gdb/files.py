# SPDX-License-Identifier: GPL-2.0-or-later
"""ELF files of kernel and modules, which gdb reads if it was given none."""

from __future__ import annotations

import errno
import stat
import struct

from kpfs.gdb.debugged import Debugged
from kpfs.gdb.packets import MAX_READ, UNKNOWN, bytes_of, number_of

VMLINUX = b"/machine/vmlinux"  # as gdb is told
MODULES, KO = "/modules", ".ko"  # folder of the files of modules, and their ends
_FD = 3
# dev ino mode nlink uid gid rdev size blksize blocks atime mtime ctime
_STAT = struct.Struct(">7I3Q3I")


class Files:
    """The one file that is open, to be read."""

    def __init__(self, debugged: Debugged) -> None:
        self._debugged = debugged
        self._opened = b""
        self._vmlinux = b""  # once it has been opened

    def answer(self, text: bytes) -> bytes:
        """Do an operation of vFile."""
        operation, _, rest = text.partition(b":")
        arguments = rest.split(b",")
        if operation == b"setfs":
            return b"F0"
        if operation == b"open":
            try:
                self._opened = self._contents(bytes_of(arguments[0]))
            except KeyError:
                return b"F-1,%x" % errno.ENOENT
            return b"F%x" % _FD
        if number_of(arguments[0]) != _FD or not self._opened:
            return b"F-1,%x" % errno.EBADF
        if operation == b"pread":
            size, offset = map(number_of, arguments[1:])
            piece = self._opened[offset : offset + min(size, MAX_READ)]
            return b"F%x;" % len(piece) + piece
        if operation == b"fstat":
            size = len(self._opened)
            raw = _STAT.pack(
                0, 1, stat.S_IFREG | 0o444, 1, 0, 0, 0, size, 0, 0, 0, 0, 0
            )
            return b"F%x;" % len(raw) + raw
        return b"F0" if operation == b"close" else UNKNOWN

    def _contents(self, path: bytes) -> bytes:
        """Return the contents of a file; KeyError: there is no such file."""
        if path == VMLINUX:  # which gdb opens more than once
            self._vmlinux = self._vmlinux or self._debugged.vmlinux()
            return self._vmlinux
        folder, _, name = path.decode(errors="replace").rpartition("/")
        if folder != MODULES or not name.endswith(KO):
            raise KeyError(name)
        return self._debugged.module_file(name.removesuffix(KO))
