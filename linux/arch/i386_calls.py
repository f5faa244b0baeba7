# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls of x86-64 by the numbers of i386.

Kernel: arch/x86/entry/syscalls/syscall_32.tbl
"""

from __future__ import annotations

from kpfs.base import syscall_numbers as nr
from kpfs.linux.arch.small_calls import SMALL_CALLS, SmallCalls, arguments, pair

_NUMBERS = SMALL_CALLS | {
    nr.GETDENTS64: 220, nr.GETTID: 224, nr.READAHEAD: 225, nr.GETXATTR: 229,
    nr.LGETXATTR: 230, nr.FGETXATTR: 231, nr.LISTXATTR: 232, nr.LLISTXATTR: 233,
    nr.FLISTXATTR: 234, nr.SCHED_SETAFFINITY: 241, nr.SCHED_GETAFFINITY: 242,
    nr.EXIT_GROUP: 252, nr.EPOLL_CREATE: 254, nr.EPOLL_CTL: 255, nr.STATFS: 268,
    nr.FSTATFS: 269, nr.TGKILL: 270, nr.FADVISE64: 272, nr.INOTIFY_INIT: 291,
    nr.OPENAT: 295, nr.MKDIRAT: 296, nr.MKNODAT: 297, nr.FCHOWNAT: 298,
    nr.NEWFSTATAT: 300, nr.UNLINKAT: 301, nr.RENAMEAT: 302, nr.LINKAT: 303,
    nr.SYMLINKAT: 304, nr.READLINKAT: 305, nr.FCHMODAT: 306, nr.FACCESSAT: 307,
    nr.SPLICE: 313, nr.SYNC_FILE_RANGE: 314, nr.GETCPU: 318, nr.EPOLL_PWAIT: 319,
    nr.TIMERFD_CREATE: 322, nr.EVENTFD: 323, nr.EVENTFD2: 328, nr.EPOLL_CREATE1: 329,
    nr.DUP3: 330, nr.PIPE2: 331, nr.INOTIFY_INIT1: 332, nr.PREADV: 333,
    nr.PWRITEV: 334, nr.PRLIMIT64: 340, nr.SYNCFS: 344, nr.KCMP: 349,
    nr.FINIT_MODULE: 350, nr.SCHED_GETATTR: 352, nr.RENAMEAT2: 353, nr.GETRANDOM: 355,
    nr.MEMFD_CREATE: 356, nr.BPF: 357, nr.EXECVEAT: 358, nr.SOCKET: 359,
    nr.SOCKETPAIR: 360, nr.SENDTO: 369, nr.RECVFROM: 371, nr.SHUTDOWN: 373,
    nr.PREADV2: 378, nr.PWRITEV2: 379, nr.STATX: 383,
}  # fmt: skip
_ARGUMENTS = arguments((), 84) | {
    nr.FADVISE64: lambda fd, at, size, advice: (fd, *pair(at), *pair(size), advice),
    nr.SYNC_FILE_RANGE: lambda fd, at, size, flags: (
        *(fd, *pair(at), *pair(size), flags),
    ),
}
i386_call = SmallCalls(_NUMBERS, _ARGUMENTS).native
