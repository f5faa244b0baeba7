# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls of x86-64 by the numbers of s390x, which has nearly all of them.

Kernel: arch/s390/kernel/syscalls/syscall.tbl
"""

from __future__ import annotations

from kpfs.base import syscall_numbers as nr
from kpfs.base.data_model import BIG_64
from kpfs.linux.arch.arch import Args
from kpfs.linux.arch.first_calls import FIRST_CALLS
from kpfs.linux.arch.generic_calls import ABSENT

_NUMBERS = FIRST_CALLS | {
    nr.POLL: 168, nr.PRCTL: 172, nr.RT_SIGACTION: 174, nr.RT_SIGTIMEDWAIT: 177,
    nr.PREAD64: 180, nr.PWRITE64: 181, nr.GETCWD: 183, nr.GETRLIMIT: 191,
    nr.LCHOWN: 198, nr.GETUID: 199, nr.GETGID: 200, nr.GETEUID: 201, nr.GETEGID: 202,
    nr.GETGROUPS: 205, nr.SETGROUPS: 206, nr.FCHOWN: 207, nr.GETRESUID: 209,
    nr.GETRESGID: 211, nr.CHOWN: 212, nr.GETDENTS64: 220, nr.READAHEAD: 222,
    nr.GETXATTR: 227, nr.LGETXATTR: 228, nr.FGETXATTR: 229, nr.LISTXATTR: 230,
    nr.LLISTXATTR: 231, nr.FLISTXATTR: 232, nr.GETTID: 236, nr.SCHED_SETAFFINITY: 239,
    nr.SCHED_GETAFFINITY: 240, nr.TGKILL: 241, nr.EXIT_GROUP: 248, nr.EPOLL_CREATE: 249,
    nr.EPOLL_CTL: 250, nr.FADVISE64: 253, nr.CLOCK_SETTIME: 259, nr.CLOCK_GETTIME: 260,
    nr.CLOCK_GETRES: 261, nr.CLOCK_NANOSLEEP: 262, nr.INOTIFY_INIT: 284, nr.OPENAT: 288,
    nr.MKDIRAT: 289, nr.MKNODAT: 290, nr.FCHOWNAT: 291, nr.NEWFSTATAT: 293,
    nr.UNLINKAT: 294, nr.RENAMEAT: 295, nr.LINKAT: 296, nr.SYMLINKAT: 297,
    nr.READLINKAT: 298, nr.FCHMODAT: 299, nr.FACCESSAT: 300, nr.PSELECT6: 301,
    nr.PPOLL: 302, nr.SPLICE: 306, nr.SYNC_FILE_RANGE: 307, nr.GETCPU: 311,
    nr.EPOLL_PWAIT: 312, nr.UTIMENSAT: 315, nr.EVENTFD: 318, nr.TIMERFD_CREATE: 319,
    nr.EVENTFD2: 323, nr.INOTIFY_INIT1: 324, nr.PIPE2: 325, nr.DUP3: 326,
    nr.EPOLL_CREATE1: 327, nr.PREADV: 328, nr.PWRITEV: 329, nr.PRLIMIT64: 334,
    nr.SYNCFS: 338, nr.KCMP: 343, nr.FINIT_MODULE: 344, nr.SCHED_GETATTR: 346,
    nr.RENAMEAT2: 347, nr.GETRANDOM: 349, nr.MEMFD_CREATE: 350, nr.BPF: 351,
    nr.EXECVEAT: 354, nr.SOCKET: 359, nr.SOCKETPAIR: 360, nr.SENDTO: 369,
    nr.RECVFROM: 371, nr.SHUTDOWN: 373, nr.PREADV2: 376, nr.PWRITEV2: 377,
    nr.STATX: 379,
}  # fmt: skip


def s390x_call(number: int, args: Args) -> tuple[int, Args]:
    """Return a call of x86-64 as s390x has it."""
    if number == nr.MMAP:  # it takes a structure
        args = (BIG_64.struct("6Q").pack(*(arg & (1 << 64) - 1 for arg in args)),)
    return _NUMBERS.get(number, ABSENT), args
