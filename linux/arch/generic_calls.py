# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls of x86-64 by what they mean, as the generic table has them.

kpfs speaks of calls by x86-64's numbers and flags.  Architectures that came to Linux
later share one table (arm64, riscv64), which lacks calls that others can do:
open() is openat() there, as libc makes it.  Kernel: include/uapi/asm-generic/unistd.h
"""

from __future__ import annotations

import os
from collections.abc import Callable

from kpfs.base import syscall_numbers as nr
from kpfs.base.data_model import LITTLE_64
from kpfs.linux.arch.arch import Args

ABSENT = 0xFFF  # a number that no table has: ENOSYS
_FDCWD = nr.AT_FDCWD
_SAME = {
    nr.GETXATTR: 8, nr.LGETXATTR: 9, nr.LISTXATTR: 11, nr.LLISTXATTR: 12,
    nr.GETCWD: 17, nr.EVENTFD2: 19, nr.EPOLL_CREATE1: 20, nr.EPOLL_CTL: 21,
    nr.EPOLL_PWAIT: 22, nr.DUP: 23, nr.DUP3: 24, nr.FCNTL: 25,
    nr.IOCTL: 29, nr.MKNODAT: 33, nr.MKDIRAT: 34, nr.UNLINKAT: 35, nr.SYMLINKAT: 36,
    nr.LINKAT: 37, nr.MOUNT: 40, nr.STATFS: 43, nr.FSTATFS: 44,
    nr.TRUNCATE: 45, nr.FTRUNCATE: 46, nr.FACCESSAT: 48, nr.CHDIR: 49, nr.FCHDIR: 50,
    nr.CHROOT: 51, nr.FCHMOD: 52, nr.FCHMODAT: 53, nr.FCHOWNAT: 54, nr.FCHOWN: 55,
    nr.OPENAT: 56, nr.CLOSE: 57, nr.PIPE2: 59, nr.GETDENTS64: 61, nr.LSEEK: 62,
    nr.READ: 63, nr.WRITE: 64, nr.READV: 65, nr.WRITEV: 66, nr.PREAD64: 67,
    nr.PWRITE64: 68, nr.SPLICE: 76, nr.READLINKAT: 78, nr.NEWFSTATAT: 79,
    nr.FSTAT: 80, nr.FSYNC: 82, nr.FDATASYNC: 83, nr.UTIMENSAT: 88, nr.EXIT: 93,
    nr.EXIT_GROUP: 94, nr.NANOSLEEP: 101, nr.INIT_MODULE: 105, nr.DELETE_MODULE: 106,
    nr.CLOCK_SETTIME: 112, nr.CLOCK_GETTIME: 113, nr.SYSLOG: 116, nr.KILL: 129,
    nr.TGKILL: 131, nr.RT_SIGACTION: 134, nr.RT_SIGTIMEDWAIT: 137,
    nr.SETPGID: 154, nr.SETSID: 157,
    nr.SETGROUPS: 159, nr.UNAME: 160, nr.SETHOSTNAME: 161, nr.UMASK: 166,
    nr.PRCTL: 167, nr.GETPID: 172, nr.GETPPID: 173, nr.GETUID: 174, nr.GETEUID: 175,
    nr.GETGID: 176, nr.GETEGID: 177, nr.GETTID: 178, nr.SYSINFO: 179,
    nr.SOCKET: 198, nr.READAHEAD: 213, nr.MUNMAP: 215, nr.EXECVE: 221, nr.MMAP: 222,
    nr.WAIT4: 260, nr.PRLIMIT64: 261, nr.KCMP: 272, nr.FINIT_MODULE: 273,
    nr.RENAMEAT2: 276, nr.GETRANDOM: 278, nr.MEMFD_CREATE: 279, nr.BPF: 280,
    nr.EXECVEAT: 281, nr.STATX: 291, nr.FSCONFIG: 431, nr.FSPICK: 433,
    nr.PIDFD_OPEN: 434, nr.CLONE3: 435,
    nr.FGETXATTR: 10, nr.FLISTXATTR: 13, nr.INOTIFY_INIT1: 26, nr.FLOCK: 32,
    nr.PREADV: 69, nr.PWRITEV: 70, nr.PSELECT6: 72, nr.PPOLL: 73, nr.SYNC: 81,
    nr.SYNC_FILE_RANGE: 84, nr.TIMERFD_CREATE: 85, nr.GETITIMER: 102,
    nr.CLOCK_GETRES: 114, nr.CLOCK_NANOSLEEP: 115, nr.SCHED_GETSCHEDULER: 120,
    nr.SCHED_SETSCHEDULER: 119,
    nr.SCHED_GETPARAM: 121, nr.SCHED_SETAFFINITY: 122, nr.SCHED_GETAFFINITY: 123,
    nr.SCHED_YIELD: 124, nr.SCHED_GET_PRIORITY_MAX: 125,
    nr.SCHED_GET_PRIORITY_MIN: 126, nr.SCHED_RR_GET_INTERVAL: 127,
    nr.SETPRIORITY: 140, nr.GETPRIORITY: 141, nr.GETRESUID: 148, nr.GETRESGID: 150,
    nr.TIMES: 153, nr.GETPGID: 155, nr.GETSID: 156, nr.GETGROUPS: 158,
    nr.GETRUSAGE: 165, nr.GETCPU: 168, nr.GETTIMEOFDAY: 169, nr.SOCKETPAIR: 199,
    nr.SENDTO: 206, nr.RECVFROM: 207, nr.SHUTDOWN: 210, nr.FADVISE64: 223,
    nr.SYNCFS: 267, nr.SCHED_GETATTR: 275, nr.PREADV2: 286, nr.PWRITEV2: 287,
    nr.CLOSE_RANGE: 436, nr.OPENAT2: 437, nr.PIDFD_GETFD: 438, nr.FACCESSAT2: 439,
}  # fmt: skip
_CREAT = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
# calls that are there no more: what libc makes of their arguments
_OTHERWISE: dict[int, Callable[..., tuple[int, Args]]] = {
    nr.OPEN: lambda path, flags, mode=0: (nr.OPENAT, (_FDCWD, path, flags, mode)),
    nr.CREAT: lambda path, mode: (nr.OPENAT, (_FDCWD, path, _CREAT, mode)),
    nr.STAT: lambda path, out: (nr.NEWFSTATAT, (_FDCWD, path, out, 0)),
    nr.LSTAT: lambda path, out: (
        nr.NEWFSTATAT,
        (_FDCWD, path, out, nr.AT_SYMLINK_NOFOLLOW),
    ),
    nr.ACCESS: lambda path, mode: (nr.FACCESSAT, (_FDCWD, path, mode)),
    nr.PIPE: lambda out: (nr.PIPE2, (out, 0)),
    nr.DUP2: lambda fd, to: (
        (nr.FCNTL, (fd, nr.F_GETFD)) if fd == to else (nr.DUP3, (fd, to, 0))
    ),
    nr.SELECT: lambda count, *rest: (nr.PSELECT6, (count, *rest, 0)),
    nr.GETPGRP: lambda: (nr.GETPGID, (0,)),
    nr.GETRLIMIT: lambda number, out: (nr.PRLIMIT64, (0, number, 0, out)),
    nr.EPOLL_CREATE: lambda _size: (nr.EPOLL_CREATE1, (0,)),
    nr.EVENTFD: lambda count: (nr.EVENTFD2, (count, 0)),
    nr.INOTIFY_INIT: lambda: (nr.INOTIFY_INIT1, (0,)),
    nr.GETDENTS: lambda fd, out, size: (nr.GETDENTS64, (fd, out, size)),
    nr.RENAME: lambda old, new: (nr.RENAMEAT2, (_FDCWD, old, _FDCWD, new, 0)),
    # arm64 has it, riscv64 does not
    nr.RENAMEAT: lambda *places: (nr.RENAMEAT2, (*places, 0)),
    nr.MKDIR: lambda path, mode: (nr.MKDIRAT, (_FDCWD, path, mode)),
    nr.RMDIR: lambda path: (nr.UNLINKAT, (_FDCWD, path, nr.AT_REMOVEDIR)),
    nr.LINK: lambda old, new: (nr.LINKAT, (_FDCWD, old, _FDCWD, new, 0)),
    nr.UNLINK: lambda path: (nr.UNLINKAT, (_FDCWD, path, 0)),
    nr.SYMLINK: lambda text, path: (nr.SYMLINKAT, (text, _FDCWD, path)),
    nr.READLINK: lambda path, out, size: (nr.READLINKAT, (_FDCWD, path, out, size)),
    nr.CHMOD: lambda path, mode: (nr.FCHMODAT, (_FDCWD, path, mode)),
    nr.CHOWN: lambda path, uid, gid: (nr.FCHOWNAT, (_FDCWD, path, uid, gid, 0)),
    nr.LCHOWN: lambda path, uid, gid: (
        nr.FCHOWNAT,
        (_FDCWD, path, uid, gid, nr.AT_SYMLINK_NOFOLLOW),
    ),
}
_TIMESPEC_MS, _NS = 1000, 1_000_000


def generic_call(
    number: int, args: Args, open_flags: Callable[[int], int] = int
) -> tuple[int, Args]:
    """Return a call of x86-64 as the generic table has it.

    open_flags: turns open()'s flags into the architecture's, if it has its own.
    """
    otherwise = _OTHERWISE.get(number)
    if otherwise is not None:
        number, args = otherwise(*args)
    if number == nr.OPENAT and len(args) > 2 and isinstance(args[2], int):
        args = (*args[:2], open_flags(args[2]), *args[3:])
    elif number == nr.PIPE2:
        args = (args[0], open_flags(args[1]))
    elif number == nr.POLL:
        return _SAME[nr.PPOLL], _poll(*args)
    return _SAME.get(number, ABSENT), args


def _poll(fds: object, count: int, milliseconds: int) -> Args:
    if milliseconds < 0:
        return fds, count, 0, 0, 8
    seconds, rest = divmod(milliseconds, _TIMESPEC_MS)
    time = LITTLE_64.struct("2q").pack(seconds, rest * _NS)
    return fds, count, time, 0, 8
