# SPDX-License-Identifier: GPL-2.0-or-later
"""Structures that system calls of x86-64 take and return.  Kernel: include/uapi/"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

STATX_SIZE = 256
_STATX = struct.Struct("<IIQIIIH2xQQQQ")
_STATX_TIMES = struct.Struct("<qI4xqI4xqI4xqI4x")
_DIRENT = struct.Struct("<QqHB")
POLLFD = struct.Struct("<ihh")
TIMESPECS = struct.Struct("<4q")


class Stat(NamedTuple):
    mode: int
    nlink: int
    uid: int
    gid: int
    size: int
    blksize: int
    ino: int
    atime: int  # ns
    mtime: int
    ctime: int


def read_statx(raw: bytes) -> Stat:
    """Unpack what statx() has written."""
    _, blksize, _, nlink, uid, gid, mode, ino, size, _, _ = _STATX.unpack_from(raw)
    atime, ans, _, _, ctime, cns, mtime, mns = _STATX_TIMES.unpack_from(raw, 64)
    times = (
        seconds * 1_000_000_000 + ns % 1_000_000_000
        for seconds, ns in ((atime, ans), (mtime, mns), (ctime, cns))
    )
    return Stat(mode, nlink, uid, gid, size, blksize, ino, *times)


def read_dirents(raw: bytes) -> Iterator[tuple[str, int]]:
    """Yield names and types (as in st_mode) of what getdents64() has written.

    What is no entry ends the list.
    """
    at = 0
    while at + _DIRENT.size <= len(raw):
        _, _, length, kind = _DIRENT.unpack_from(raw, at)
        if length <= _DIRENT.size:
            return
        name = raw[at + _DIRENT.size : at + length].split(b"\0", 1)[0]
        yield name.decode("latin-1"), kind << 12
        at += length
