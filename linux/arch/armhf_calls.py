# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls of x86-64 by the numbers of armhf.

Kernel: arch/arm/tools/syscall.tbl
"""

from __future__ import annotations

from kpfs.base import syscall_numbers as nr
from kpfs.linux.arch.arm64 import LinuxArm64
from kpfs.linux.arch.small_calls import SMALL_CALLS, SmallCalls, arguments, pair

_NUMBERS = SMALL_CALLS | {
    nr.GETDENTS64: 217, nr.GETTID: 224, nr.READAHEAD: 225, nr.GETXATTR: 229,
    nr.LGETXATTR: 230, nr.FGETXATTR: 231, nr.LISTXATTR: 232, nr.LLISTXATTR: 233,
    nr.FLISTXATTR: 234, nr.SCHED_SETAFFINITY: 241, nr.SCHED_GETAFFINITY: 242,
    nr.EXIT_GROUP: 248, nr.EPOLL_CREATE: 250, nr.EPOLL_CTL: 251, nr.STATFS: 266,
    nr.FSTATFS: 267, nr.TGKILL: 268, nr.FADVISE64: 270, nr.SOCKET: 281,
    nr.SOCKETPAIR: 288, nr.SENDTO: 290, nr.RECVFROM: 292, nr.SHUTDOWN: 293,
    nr.INOTIFY_INIT: 316, nr.OPENAT: 322, nr.MKDIRAT: 323, nr.MKNODAT: 324,
    nr.FCHOWNAT: 325, nr.NEWFSTATAT: 327, nr.UNLINKAT: 328, nr.RENAMEAT: 329,
    nr.LINKAT: 330, nr.SYMLINKAT: 331, nr.READLINKAT: 332, nr.FCHMODAT: 333,
    nr.FACCESSAT: 334, nr.SPLICE: 340, nr.SYNC_FILE_RANGE: 341, nr.GETCPU: 345,
    nr.EPOLL_PWAIT: 346, nr.TIMERFD_CREATE: 350, nr.EVENTFD: 351, nr.EVENTFD2: 356,
    nr.EPOLL_CREATE1: 357, nr.DUP3: 358, nr.PIPE2: 359, nr.INOTIFY_INIT1: 360,
    nr.PREADV: 361, nr.PWRITEV: 362, nr.PRLIMIT64: 369, nr.SYNCFS: 373, nr.KCMP: 378,
    nr.FINIT_MODULE: 379, nr.SCHED_GETATTR: 381, nr.RENAMEAT2: 382, nr.GETRANDOM: 384,
    nr.MEMFD_CREATE: 385, nr.BPF: 386, nr.EXECVEAT: 387, nr.PREADV2: 392,
    nr.PWRITEV2: 393, nr.STATX: 397,
}  # fmt: skip
# a pair begins at an even register
_ARGUMENTS = arguments((0,), 88) | {
    nr.FADVISE64: lambda fd, at, size, advice: (fd, advice, *pair(at), *pair(size)),
    nr.SYNC_FILE_RANGE: lambda fd, at, size, flags: (
        *(fd, flags, *pair(at), *pair(size)),
    ),
}
armhf_call = SmallCalls(_NUMBERS, _ARGUMENTS, LinuxArm64.open_flags).native
