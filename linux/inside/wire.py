# SPDX-License-Identifier: GPL-2.0-or-later
"""The protocol of FUSE as bytes: what a kernel asks through /dev/fuse.

Kernel: include/uapi/linux/fuse.h
"""

from __future__ import annotations

import os
import struct
from enum import IntEnum

MAJOR, MINOR = 7, 31
PAGES = 32  # of 4 KiB that one request transfers at most
MAX_IO = PAGES << 12
ROOT_ID = 1


class Opcode(IntEnum):
    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    SETATTR = 4
    READLINK = 5
    SYMLINK = 6
    MKNOD = 8
    MKDIR = 9
    UNLINK = 10
    RMDIR = 11
    RENAME = 12
    LINK = 13
    READ = 15
    WRITE = 16
    STATFS = 17
    FSYNC = 20
    INIT = 26
    READDIR = 28
    FSYNCDIR = 30
    CREATE = 35
    INTERRUPT = 36
    BATCH_FORGET = 42
    READDIRPLUS = 44
    RENAME2 = 45


# what is asked for in INIT, if the kernel offers it
ASYNC_READ, BIG_WRITES, AUTO_INVAL_DATA = 1, 1 << 5, 1 << 12
DO_READDIRPLUS, READDIRPLUS_AUTO = 1 << 13, 1 << 14
NO_OPEN, PARALLEL_DIROPS, MAX_PAGES = 1 << 17, 1 << 18, 1 << 22
CACHE_SYMLINKS, NO_OPENDIR = 1 << 23, 1 << 24
WANTED = (
    ASYNC_READ | BIG_WRITES | AUTO_INVAL_DATA | DO_READDIRPLUS | READDIRPLUS_AUTO
    | NO_OPEN | PARALLEL_DIROPS | MAX_PAGES | CACHE_SYMLINKS | NO_OPENDIR
)  # fmt: skip
# fields of SETATTR
FATTR_MODE, FATTR_UID, FATTR_GID, FATTR_SIZE = 1, 2, 4, 8
FATTR_ATIME, FATTR_MTIME, FATTR_ATIME_NOW, FATTR_MTIME_NOW = 16, 32, 128, 256

IN_HEADER = struct.Struct("<IIQQIIII")  # length opcode unique node uid gid pid pad
OUT_HEADER = struct.Struct("<IiQ")  # length error unique
INIT_IN = struct.Struct("<4I")  # major minor readahead flags
_INIT_OUT = struct.Struct("<4I2H2I2H8I")
READ_IN = struct.Struct("<QQI")  # handle offset size
WRITE_IN = struct.Struct("<QQIIQII")  # handle offset size flags owner flags pad
SETATTR_IN = struct.Struct("<IIQQQQQQIIIIIIII")
MKNOD_IN = struct.Struct("<4I")  # mode rdev umask pad
CREATE_IN = struct.Struct("<4I")  # flags mode umask pad
OPEN_OUT = struct.Struct("<QII")  # handle flags pad
MKDIR_IN = struct.Struct("<2I")  # mode umask
RENAME_IN = struct.Struct("<Q")  # new parent
RENAME2_IN = struct.Struct("<QII")  # new parent, flags
LINK_IN = struct.Struct("<Q")  # node
FORGET_IN = struct.Struct("<Q")  # lookups
BATCH_FORGET_IN = struct.Struct("<II")  # count
FORGET_ONE = struct.Struct("<QQ")  # node lookups
_ATTR = struct.Struct("<6Q10I")
_ATTR_OUT = struct.Struct("<QII")  # valid s, ns
_ENTRY_OUT = struct.Struct("<4Q2I")  # node generation valid s 2x, ns 2x
_DIRENT = struct.Struct("<QQII")  # inode offset length type
_STATFS_OUT = struct.Struct("<5Q4I6I")
WRITE_OUT = struct.Struct("<II")
_NS = 1_000_000_000


def init_reply(request: bytes) -> bytes:
    """What we are and want."""
    _, _, readahead, flags = INIT_IN.unpack_from(request)
    return _INIT_OUT.pack(
        MAJOR, MINOR, min(readahead, MAX_IO), flags & WANTED,
        16, 12, MAX_IO, 1, PAGES, 0, *[0] * 8,
    )  # fmt: skip


def attributes(st: os.stat_result, uid: int, gid: int) -> bytes:
    """struct fuse_attr of what lstat() said, with that owner."""
    times = st.st_atime_ns, st.st_mtime_ns, st.st_ctime_ns
    return _ATTR.pack(
        st.st_ino, st.st_size, st.st_blocks,
        *(ns // _NS for ns in times), *(ns % _NS for ns in times),
        st.st_mode, st.st_nlink, uid, gid, st.st_rdev & 0xFFFFFFFF, st.st_blksize, 0,
    )  # fmt: skip


def attributes_reply(attr: bytes, valid: int) -> bytes:
    """valid: s for which the kernel need not ask again."""
    return _ATTR_OUT.pack(valid, 0, 0) + attr


def entry(node: int, attr: bytes, valid: int) -> bytes:
    """A name and what it stands for; node 0: there is none, and that is remembered."""
    return _ENTRY_OUT.pack(node, 0, valid, valid, 0, 0) + (attr or bytes(_ATTR.size))


NO_ENTRY = entry(0, b"", 0)


def dirent(ino: int, offset: int, name: bytes, kind: int) -> bytes:
    """One row of a directory; offset is that of the next one."""
    row = _DIRENT.pack(ino, offset, len(name), kind) + name
    return row + bytes(-len(row) % 8)


def statfs_reply(st: os.statvfs_result) -> bytes:
    return _STATFS_OUT.pack(
        st.f_blocks, st.f_bfree, st.f_bavail, st.f_files, st.f_ffree,
        st.f_bsize, st.f_namemax, st.f_frsize, 0, *[0] * 6,
    )  # fmt: skip
