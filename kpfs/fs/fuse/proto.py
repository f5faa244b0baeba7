# SPDX-License-Identifier: GPL-2.0-or-later
"""The messages of /dev/fuse: numbers and layouts.

Document: fuse(4), Documentation/filesystems/fuse.rst, include/uapi/linux/fuse.h.
"""

from __future__ import annotations

from struct import Struct

MAJOR, MINOR = 7, 31
OLDEST_MINOR = 23  # Linux 3.15
STORE_INVALIDATES = 35  # minor, Linux 5.16: after NOTIFY_STORE Linux asks for the size
ROOT = 1  # nodeid

# opcodes
LOOKUP, FORGET, GETATTR, SETATTR = 1, 2, 3, 4
READLINK, SYMLINK, MKNOD, MKDIR, UNLINK, RMDIR = 5, 6, 8, 9, 10, 11
RENAME, LINK = 12, 13
OPEN, READ, WRITE, STATFS, RELEASE, FSYNC = 14, 15, 16, 17, 18, 20
INIT, OPENDIR, READDIR, RELEASEDIR = 26, 27, 28, 29
CREATE, INTERRUPT, DESTROY, IOCTL, POLL, BATCH_FORGET = 35, 36, 38, 39, 40, 42

HEADER = Struct("=IIQQIII4x")  # length, opcode, unique, nodeid, uid, gid, pid
ANSWER = Struct("=IiQ")  # length, -errno, unique
# "ino, size, blocks", three times in s, the same in ns, "mode, nlink, uid, gid, rdev,
# blksize, flags"
ATTR = Struct("=3Q3q10I")
ENTRY = Struct("=4Q2I")  # nodeid, generation, how long it and its attributes hold
ATTR_ANSWER = Struct("=QII")  # how long they hold
INIT_REQUEST = Struct("=4I")  # major, minor, max_readahead, flags
# major, minor, max_readahead, flags, max_background, congestion_threshold, max_write,
# time_gran
INIT_ANSWER = Struct("=4I2H2I36x")
GETATTR_REQUEST = Struct("=I4xQ")  # flags, fh
# valid, fh, size, lock_owner, three times in s, the same in ns, mode, uid, gid
SETATTR_REQUEST = Struct("=I4x3Q3q3II4x2I4x")
OPEN_REQUEST = Struct("=I4x")  # flags
OPEN_ANSWER = Struct("=QII")  # fh, flags
READ_REQUEST = Struct("=QQIIQI4x")  # fh, offset, size, read_flags, lock_owner, flags
WRITE_REQUEST = READ_REQUEST  # with write_flags
WRITE_ANSWER = Struct("=I4x")
FH = Struct("=Q")  # the first word of many requests
MKDIR_REQUEST = Struct("=I4x")  # mode, umask; then the name
MKNOD_REQUEST = Struct("=II8x")  # mode, rdev, umask; then the name
CREATE_REQUEST = Struct("=II8x")  # flags, mode, umask, open_flags; then the name
FORGET_ONE = Struct("=QQ")  # nodeid, nlookup
STATFS_ANSWER = Struct("=5Q3I28x")  # five counts, bsize, namelen, frsize
IOCTL_REQUEST = Struct("=Q2IQ2I")  # fh, flags, cmd, arg, in_size, out_size
IOCTL_ANSWER = Struct("=iI2I")  # result, flags, in_iovs, out_iovs
POLL_REQUEST = Struct("=QQII")  # fh, kh, flags, events
POLL_ANSWER = Struct("=I4x")
DIRENT = Struct("=QQII")  # ino, offset of the next, length of the name, type; then name
INVAL_INODE = Struct("=Qqq")  # nodeid, offset, length
STORE = Struct("=QQI4x")  # nodeid, offset, size; then the data

# flags of INIT
ATOMIC_O_TRUNC, BIG_WRITES, PARALLEL_DIROPS = 1 << 3, 1 << 5, 1 << 18
GETATTR_FH = 1
# valid of SETATTR
FATTR_MODE, FATTR_UID, FATTR_GID, FATTR_SIZE, FATTR_ATIME, FATTR_MTIME = (
    1, 2, 4, 8, 16, 32,
)  # fmt: skip
FATTR_FH = 64
FOPEN_DIRECT_IO, FOPEN_NONSEEKABLE, FOPEN_PARALLEL_DIRECT_WRITES = 1, 4, 0x40
READ_LOCKOWNER = 2
POLL_SCHEDULE_NOTIFY = 1
# codes of notifications
NOTIFY_POLL, NOTIFY_INVAL_INODE, NOTIFY_STORE = 1, 2, 4

MAX_WRITE = 131072
BUFFER = MAX_WRITE + 4096  # for one request


def answer(unique: int, error: int, payload: bytes = b"") -> bytes:
    """An answer; error is an errno or 0."""
    return ANSWER.pack(ANSWER.size + len(payload), -error, unique) + payload


def notification(code: int, payload: bytes) -> bytes:
    """What Linux is told without having asked."""
    return ANSWER.pack(ANSWER.size + len(payload), code, 0) + payload


def dirent(ino: int, following: int, name: bytes, mode: int) -> bytes:
    """One entry of a directory, padded."""
    head = DIRENT.pack(ino, following, len(name), mode >> 12)
    return head + name + bytes(-len(name) % 8)
