# SPDX-License-Identifier: GPL-2.0-or-later
"""Structures that system calls of x86-64 take and return.  Kernel: include/uapi/"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kpfs.base.data_model import DataModel

STATX_SIZE = 256
_STATX, _STATX_TIMES = "IIQIIIH2xQQQQ", "qI4xqI4xqI4xqI4x"
_DIRENT = "QqHB"
POLLFD, TIMESPECS = "ihh", "4q"


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


def read_statx(raw: bytes, model: DataModel) -> Stat:
    """Unpack what statx() has written."""
    unpacked = model.struct(_STATX).unpack_from(raw)
    _, blksize, _, nlink, uid, gid, mode, ino, size, _, _ = unpacked
    unpacked = model.struct(_STATX_TIMES).unpack_from(raw, 64)
    atime, ans, _, _, ctime, cns, mtime, mns = unpacked
    times = (
        seconds * 1_000_000_000 + ns % 1_000_000_000
        for seconds, ns in ((atime, ans), (mtime, mns), (ctime, cns))
    )
    return Stat(mode, nlink, uid, gid, size, blksize, ino, *times)


def read_dirents(raw: bytes, model: DataModel) -> Iterator[tuple[str, int]]:
    """Yield names and types (as in st_mode) of what getdents64() has written.

    What is no entry ends the list.
    """
    at, head = 0, model.struct(_DIRENT)
    while at + head.size <= len(raw):
        _, _, length, kind = head.unpack_from(raw, at)
        if length <= head.size:
            return
        name = raw[at + head.size : at + length].split(b"\0", 1)[0]
        yield name.decode("latin-1"), kind << 12
        at += length
