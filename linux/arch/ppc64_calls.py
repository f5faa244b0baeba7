# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls of x86-64 as ppc64 has them: other numbers, flags and requests.

Kernel: arch/powerpc/kernel/syscalls/syscall.tbl, include/uapi/asm in arch/powerpc
"""

from __future__ import annotations

import termios

from kpfs.base import syscall_numbers as nr
from kpfs.linux.arch.arch import Args
from kpfs.linux.arch.changed import ChangedCalls, Terminal, moved
from kpfs.linux.arch.first_calls import FIRST_CALLS

_NUMBERS = FIRST_CALLS | {
    nr.LCHOWN: 16, nr.GETUID: 24, nr.GETGID: 47, nr.GETEUID: 49, nr.GETEGID: 50,
    nr.GETRLIMIT: 76, nr.GETGROUPS: 80, nr.SETGROUPS: 81, nr.FCHOWN: 95,
    nr.GETRESUID: 165, nr.POLL: 167, nr.GETRESGID: 170, nr.PRCTL: 171,
    nr.RT_SIGACTION: 173, nr.RT_SIGTIMEDWAIT: 176, nr.PREAD64: 179, nr.PWRITE64: 180,
    nr.CHOWN: 181, nr.GETCWD: 182, nr.READAHEAD: 191, nr.GETDENTS64: 202,
    nr.GETTID: 207, nr.GETXATTR: 212, nr.LGETXATTR: 213, nr.FGETXATTR: 214,
    nr.LISTXATTR: 215, nr.LLISTXATTR: 216, nr.FLISTXATTR: 217,
    nr.SCHED_SETAFFINITY: 222, nr.SCHED_GETAFFINITY: 223, nr.FADVISE64: 233,
    nr.EXIT_GROUP: 234, nr.EPOLL_CREATE: 236, nr.EPOLL_CTL: 237, nr.CLOCK_SETTIME: 245,
    nr.CLOCK_GETTIME: 246, nr.CLOCK_GETRES: 247, nr.CLOCK_NANOSLEEP: 248,
    nr.TGKILL: 250, nr.INOTIFY_INIT: 275, nr.PSELECT6: 280, nr.PPOLL: 281,
    nr.SPLICE: 283, nr.OPENAT: 286, nr.MKDIRAT: 287, nr.MKNODAT: 288, nr.FCHOWNAT: 289,
    nr.NEWFSTATAT: 291, nr.UNLINKAT: 292, nr.RENAMEAT: 293, nr.LINKAT: 294,
    nr.SYMLINKAT: 295, nr.READLINKAT: 296, nr.FCHMODAT: 297, nr.FACCESSAT: 298,
    nr.GETCPU: 302, nr.EPOLL_PWAIT: 303, nr.UTIMENSAT: 304, nr.TIMERFD_CREATE: 306,
    nr.EVENTFD: 307, nr.SYNC_FILE_RANGE: 308, nr.EVENTFD2: 314, nr.EPOLL_CREATE1: 315,
    nr.DUP3: 316, nr.PIPE2: 317, nr.INOTIFY_INIT1: 318, nr.PREADV: 320, nr.PWRITEV: 321,
    nr.PRLIMIT64: 325, nr.SOCKET: 326, nr.SOCKETPAIR: 333, nr.SENDTO: 335,
    nr.RECVFROM: 337, nr.SHUTDOWN: 338, nr.SYNCFS: 348, nr.FINIT_MODULE: 353,
    nr.KCMP: 354, nr.SCHED_GETATTR: 356, nr.RENAMEAT2: 357, nr.GETRANDOM: 359,
    nr.MEMFD_CREATE: 360, nr.BPF: 361, nr.EXECVEAT: 362, nr.PREADV2: 380,
    nr.PWRITEV2: 381, nr.STATX: 383,
}  # fmt: skip
# O_DIRECT, O_LARGEFILE, O_DIRECTORY, O_NOFOLLOW: x86-64's and ppc64's
_OPEN_FLAGS = (
    *((0o40000, 0o400000), (0o100000, 0o200000)),
    *((0o200000, 0o40000), (0o400000, 0o100000)),
)
# requests of ioctl() whose numbers do not tell what they do with how many bytes
_REQUESTS = {
    termios.TCGETS: 0x402C_7413, termios.TCSETS: 0x802C_7414,
    termios.TCSETSW: 0x802C_7415, termios.TCSETSF: 0x802C_7416,
    termios.TIOCGWINSZ: 0x4008_7468, termios.TIOCSWINSZ: 0x8008_7467,
    termios.TIOCSPGRP: 0x8004_7476, termios.TIOCGPGRP: 0x4004_7477,
    termios.FIONREAD: 0x4004_667F, termios.FIONBIO: 0x8004_667E,
    termios.FIOCLEX: 0x2000_6601, termios.FIONCLEX: 0x2000_6602,
    termios.TIOCOUTQ: 0x4004_7473, 0x5441: 0x2000_5441,  # TIOCGPTPEER
}  # fmt: skip
# flags of input, output, control and local modes that are elsewhere
_TERMINAL_FLAGS = (
    ((0x400, 0x200), (0x1000, 0x400), (0x200, 0x1000)),
    ((4, 2), (2, 4)),
    tuple(
        (bit, bit << 4) for bit in (0x10, 0x20, 0x40, 0x80, 0x100, 0x200, 0x400, 0x800)
    ),
    (
        *((1, 0x80), (2, 0x100), (0x10, 2), (0x20, 4), (0x40, 0x10), (0x80, 1 << 31)),
        *((0x100, 0x40_0000), (0x200, 0x40), (0x400, 0x20), (0x800, 1)),
        *((0x1000, 0x80_0000), (0x4000, 0x2000_0000), (0x8000, 0x400)),
    ),
)
# by ppc64's places: x86-64's of the special characters
_CHARACTERS = 0, 1, 2, 3, 4, 6, 11, 5, 16, 7, 14, 12, 10, 8, 9, 15, 13
_TERMINAL = Terminal(_TERMINAL_FLAGS, _CHARACTERS, 19, 38400)
_MAP_FLAGS = (0x2000, 0x80), (0x4000, 0x40)  # MAP_LOCKED, MAP_NORESERVE


def open_flags(flags: int) -> int:
    """Return open()'s flags of x86-64 as ppc64 has them."""
    return moved(flags, _OPEN_FLAGS)


_CALLS = ChangedCalls(
    _NUMBERS,
    _REQUESTS,
    _TERMINAL,
    {
        nr.OPEN: [(1, open_flags)],
        nr.OPENAT: [(2, open_flags)],
        nr.PIPE2: [(1, open_flags)],
        nr.MMAP: [(3, lambda flags: moved(flags, _MAP_FLAGS))],
    },
)
request, terminal = _CALLS.request, _TERMINAL.of


def ppc64_call(number: int, args: Args) -> tuple[int, Args]:
    """Return a call of x86-64 as ppc64 has it."""
    if number == nr.SYNC_FILE_RANGE:  # sync_file_range2()
        fd, at, size, flags = args
        args = fd, flags, at, size
    return _CALLS.native(number, args)
