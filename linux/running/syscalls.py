# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls of x86-64 by number, and what they need and return, as bytes.

Kernel: arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

READ, WRITE, OPEN, CLOSE, POLL, LSEEK = 0, 1, 2, 3, 7, 8
PREAD64, PWRITE64, READV, WRITEV = 17, 18, 19, 20
GETPID, EXIT, KILL, FCHDIR, CHDIR, GETPPID = 39, 60, 62, 81, 80, 110
DUP3, PRCTL, MOUNT, SYSLOG, EXIT_GROUP, TGKILL = 292, 157, 165, 103, 231, 234
INIT_MODULE, DELETE_MODULE, GETDENTS64 = 175, 176, 217
MMAP, MUNMAP, MEMFD_CREATE, EVENTFD2 = 9, 11, 319, 290
UTIMENSAT, FCHMODAT, FCHOWNAT, MKDIRAT, MKNODAT = 280, 268, 260, 258, 259
UNLINKAT, RENAMEAT, LINKAT, SYMLINKAT, READLINKAT = 263, 264, 265, 266, 267
TRUNCATE, FTRUNCATE, STATX, STATFS = 76, 77, 332, 137
OPENAT, FINIT_MODULE, PIDFD_OPEN, PIDFD_GETFD = 257, 313, 434, 438
FCNTL, CLOCK_SETTIME = 72, 227
IOCTL, SOCKET, WAIT4, UMASK, SETPGID, SETSID, CHROOT = 16, 41, 61, 95, 109, 112, 161
RT_SIGACTION, SETGROUPS, SETRESUID, SETRESGID, SETHOSTNAME = 13, 116, 117, 119, 170
PIPE2, PRLIMIT64, EXECVE, CLOSE_RANGE, DUP2 = 293, 302, 59, 436, 33
UNLINK, MKDIR, SYMLINK, MMAP = 87, 83, 88, 9

MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_MOVE = 2, 4, 8, 1 << 12, 1 << 13

AT_FDCWD = -100
O_DIRECTORY = 0o200000
AT_SYMLINK_NOFOLLOW, AT_REMOVEDIR, AT_EMPTY_PATH = 0x100, 0x200, 0x1000
PR_SET_NAME = 15
F_DUPFD = 0
POLLIN, POLLPRI, POLLOUT, POLLERR, POLLHUP = 1, 2, 4, 8, 16
SEEK_SET, SEEK_CUR, SEEK_END = 0, 1, 2
STATX_BASIC = 0x7FF
UTIME_OMIT = (1 << 30) - 2

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
        seconds * 1_000_000_000 + ns
        for seconds, ns in ((atime, ans), (mtime, mns), (ctime, cns))
    )
    return Stat(mode, nlink, uid, gid, size, blksize, ino, *times)


def read_dirents(raw: bytes) -> Iterator[tuple[str, int]]:
    """Names and types (as in st_mode) of what getdents64() has written."""
    at = 0
    while at < len(raw):
        _, _, length, kind = _DIRENT.unpack_from(raw, at)
        name = raw[at + _DIRENT.size : at + length].split(b"\0", 1)[0]
        yield name.decode("latin-1"), kind << 12
        at += length
