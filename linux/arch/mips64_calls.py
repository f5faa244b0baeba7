# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls of x86-64 as mips64 has them (n64): of its own are nearly all numbers.

The agent returns errors by x86-64's numbers.  Kernel: syscall_n64.tbl of arch/mips,
include/uapi/asm there
"""

from __future__ import annotations

import errno
import termios
from collections.abc import Mapping
from typing import Any

from kpfs.base import syscall_numbers as nr
from kpfs.linux.arch.arch import Args
from kpfs.linux.arch.changed import ChangedCalls, Terminal, moved

_NUMBERS = {
    nr.READ: 5000, nr.WRITE: 5001, nr.OPEN: 5002, nr.CLOSE: 5003, nr.STAT: 5004,
    nr.FSTAT: 5005, nr.LSTAT: 5006, nr.POLL: 5007, nr.LSEEK: 5008, nr.MMAP: 5009,
    nr.MUNMAP: 5011, nr.RT_SIGACTION: 5013, nr.IOCTL: 5015, nr.PREAD64: 5016,
    nr.PWRITE64: 5017, nr.READV: 5018, nr.WRITEV: 5019, nr.ACCESS: 5020, nr.PIPE: 5021,
    nr.SELECT: 5022, nr.SCHED_YIELD: 5023, nr.DUP: 5031, nr.DUP2: 5032,
    nr.NANOSLEEP: 5034, nr.GETITIMER: 5035, nr.GETPID: 5038, nr.SOCKET: 5040,
    nr.SENDTO: 5043, nr.RECVFROM: 5044, nr.SHUTDOWN: 5047, nr.SOCKETPAIR: 5052,
    nr.EXECVE: 5057, nr.EXIT: 5058, nr.WAIT4: 5059, nr.KILL: 5060, nr.UNAME: 5061,
    nr.FCNTL: 5070, nr.FLOCK: 5071, nr.FSYNC: 5072, nr.FDATASYNC: 5073,
    nr.TRUNCATE: 5074, nr.FTRUNCATE: 5075, nr.GETDENTS: 5076, nr.GETCWD: 5077,
    nr.CHDIR: 5078, nr.FCHDIR: 5079, nr.RENAME: 5080, nr.MKDIR: 5081, nr.RMDIR: 5082,
    nr.CREAT: 5083, nr.LINK: 5084, nr.UNLINK: 5085, nr.SYMLINK: 5086, nr.READLINK: 5087,
    nr.CHMOD: 5088, nr.FCHMOD: 5089, nr.CHOWN: 5090, nr.FCHOWN: 5091, nr.LCHOWN: 5092,
    nr.UMASK: 5093, nr.GETTIMEOFDAY: 5094, nr.GETRLIMIT: 5095, nr.GETRUSAGE: 5096,
    nr.SYSINFO: 5097, nr.TIMES: 5098, nr.GETUID: 5100, nr.SYSLOG: 5101, nr.GETGID: 5102,
    nr.GETEUID: 5105, nr.GETEGID: 5106, nr.SETPGID: 5107, nr.GETPPID: 5108,
    nr.GETPGRP: 5109, nr.SETSID: 5110, nr.GETGROUPS: 5113, nr.SETGROUPS: 5114,
    nr.GETRESUID: 5116, nr.GETRESGID: 5118, nr.GETPGID: 5119, nr.GETSID: 5122,
    nr.RT_SIGTIMEDWAIT: 5126, nr.STATFS: 5134, nr.FSTATFS: 5135, nr.GETPRIORITY: 5137,
    nr.SETPRIORITY: 5138, nr.SCHED_GETPARAM: 5140, nr.SCHED_GETSCHEDULER: 5142,
    nr.SCHED_SETSCHEDULER: 5141,
    nr.SCHED_GET_PRIORITY_MAX: 5143, nr.SCHED_GET_PRIORITY_MIN: 5144,
    nr.SCHED_RR_GET_INTERVAL: 5145, nr.PRCTL: 5153, nr.CHROOT: 5156, nr.SYNC: 5157,
    nr.MOUNT: 5160, nr.SETHOSTNAME: 5165, nr.INIT_MODULE: 5168, nr.DELETE_MODULE: 5169,
    nr.GETTID: 5178, nr.READAHEAD: 5179, nr.GETXATTR: 5183, nr.LGETXATTR: 5184,
    nr.FGETXATTR: 5185, nr.LISTXATTR: 5186, nr.LLISTXATTR: 5187, nr.FLISTXATTR: 5188,
    nr.SCHED_SETAFFINITY: 5195, nr.SCHED_GETAFFINITY: 5196, nr.EXIT_GROUP: 5205,
    nr.EPOLL_CREATE: 5207, nr.EPOLL_CTL: 5208, nr.FADVISE64: 5215,
    nr.CLOCK_SETTIME: 5221, nr.CLOCK_GETTIME: 5222, nr.CLOCK_GETRES: 5223,
    nr.CLOCK_NANOSLEEP: 5224, nr.TGKILL: 5225, nr.INOTIFY_INIT: 5243, nr.OPENAT: 5247,
    nr.MKDIRAT: 5248, nr.MKNODAT: 5249, nr.FCHOWNAT: 5250, nr.NEWFSTATAT: 5252,
    nr.UNLINKAT: 5253, nr.RENAMEAT: 5254, nr.LINKAT: 5255, nr.SYMLINKAT: 5256,
    nr.READLINKAT: 5257, nr.FCHMODAT: 5258, nr.FACCESSAT: 5259, nr.PSELECT6: 5260,
    nr.PPOLL: 5261, nr.SPLICE: 5263, nr.SYNC_FILE_RANGE: 5264, nr.GETCPU: 5271,
    nr.EPOLL_PWAIT: 5272, nr.UTIMENSAT: 5275, nr.EVENTFD: 5278, nr.TIMERFD_CREATE: 5280,
    nr.EVENTFD2: 5284, nr.EPOLL_CREATE1: 5285, nr.DUP3: 5286, nr.PIPE2: 5287,
    nr.INOTIFY_INIT1: 5288, nr.PREADV: 5289, nr.PWRITEV: 5290, nr.PRLIMIT64: 5297,
    nr.SYNCFS: 5301, nr.KCMP: 5306, nr.FINIT_MODULE: 5307, nr.GETDENTS64: 5308,
    nr.SCHED_GETATTR: 5310, nr.RENAMEAT2: 5311, nr.GETRANDOM: 5313,
    nr.MEMFD_CREATE: 5314, nr.BPF: 5315, nr.EXECVEAT: 5316, nr.PREADV2: 5321,
    nr.PWRITEV2: 5322, nr.STATX: 5326, nr.FSCONFIG: 5431, nr.FSPICK: 5433,
    nr.PIDFD_OPEN: 5434, nr.CLONE3: 5435, nr.CLOSE_RANGE: 5436, nr.OPENAT2: 5437,
    nr.PIDFD_GETFD: 5438, nr.FACCESSAT2: 5439,
}  # fmt: skip
# errors of files by x86-64's numbers; agent/errors_mips.h has all, the other way round
ERRORS: Mapping[int, int] = {
    errno.EDEADLK: 45, errno.ENOLCK: 46, errno.EBADMSG: 77, errno.ENAMETOOLONG: 78,
    errno.EOVERFLOW: 79, errno.EILSEQ: 88, errno.ENOSYS: 89, errno.ELOOP: 90,
    errno.ENOTEMPTY: 93, errno.EOPNOTSUPP: 122, errno.EUCLEAN: 135,
    errno.EREMOTEIO: 140, errno.ETIMEDOUT: 145, errno.ESTALE: 151,
    errno.ECANCELED: 158, errno.EDQUOT: 1133,
}  # fmt: skip
# O_CREAT, O_EXCL, O_NOCTTY, O_APPEND, O_NONBLOCK, O_DSYNC, FASYNC, O_DIRECT,
# O_LARGEFILE, O_SYNC: x86-64's and mips's
_OPEN_FLAGS = (
    *((0x40, 0x100), (0x80, 0x400), (0x100, 0x800), (0x400, 8), (0x800, 0x80)),
    *((0x1000, 0x10), (0x2000, 0x1000), (0x4000, 0x8000), (0x8000, 0x2000)),
    (0x10_0000, 0x4000),
)
# MAP_ANONYMOUS, and the others from MAP_GROWSDOWN to MAP_HUGETLB
_MAP_FLAGS = (
    *((0x20, 0x800), (0x100, 0x1000), (0x800, 0x2000), (0x1000, 0x4000)),
    *((0x2000, 0x8000), (0x4000, 0x400), (0x8000, 0x1_0000), (0x1_0000, 0x2_0000)),
    *((0x2_0000, 0x4_0000), (0x4_0000, 0x8_0000)),
)
# signals by x86-64's numbers, where they are others; 16 is none
_SIGNALS = {
    7: 10, 10: 16, 12: 17, 17: 18, 18: 25, 19: 23, 20: 24, 21: 26, 22: 27, 23: 21,
    24: 30, 25: 31, 26: 28, 27: 29, 28: 20, 29: 22, 30: 19, 31: 12,
}  # fmt: skip
SIGNALS: Mapping[int, int] = {theirs: ours for ours, theirs in _SIGNALS.items()}
_SIGNAL_SET = 16  # bytes
_SOCKET_TYPES = {1: 2, 2: 1}  # SOCK_STREAM, SOCK_DGRAM
_SOCKET_TYPE = 15
_FCNTL = {5: 14, 8: 24, 9: 23}  # F_GETLK, F_SETOWN, F_GETOWN
_REQUESTS = {
    termios.TCGETS: 0x540D, termios.TCSETS: 0x540E, termios.TCSETSW: 0x540F,
    termios.TCSETSF: 0x5410, termios.TCFLSH: 0x5407, termios.TCXONC: 0x5406,
    termios.TCSBRK: 0x5405, termios.TIOCGWINSZ: 0x4008_7468,
    termios.TIOCSWINSZ: 0x8008_7467, termios.TIOCSPGRP: 0x8004_7476,
    termios.TIOCGPGRP: 0x4004_7477, termios.TIOCSCTTY: 0x5480,
    termios.TIOCNOTTY: 0x5471, termios.FIONREAD: 0x467F, termios.FIONBIO: 0x667E,
    termios.FIOCLEX: 0x6601, termios.FIONCLEX: 0x6602, termios.TIOCOUTQ: 0x7472,
    0x5441: 0x2000_5441,  # TIOCGPTPEER
}  # fmt: skip
# TOSTOP, FLUSHO, IEXTEN
_LOCAL_FLAGS = (0x100, 0x8000), (0x1000, 0x2000), (0x8000, 0x100)
_NONE = 19  # behind x86-64's characters
# by mips's places: x86-64's of the special characters
_CHARACTERS = 0, 1, 2, 3, 6, 5, 16, 7, 8, 9, 10, _NONE, 12, 13, 14, 15, 4, 11
_TERMINAL = Terminal(((), (), (), _LOCAL_FLAGS), _CHARACTERS, 23)


def open_flags(flags: int) -> int:
    """Return open()'s flags of x86-64 as mips has them."""
    return moved(flags, _OPEN_FLAGS)


def signal_of(number: int) -> int:
    """Return a signal of x86-64 by mips's number."""
    return _SIGNALS.get(number, number)


def _socket_type(number: int) -> int:
    kind = number & _SOCKET_TYPE
    return open_flags(number & ~_SOCKET_TYPE) | _SOCKET_TYPES.get(kind, kind)


def _wider(argument: Any) -> Any:
    """Return a set of signals as mips has it, with room for 128."""
    if isinstance(argument, bytes) and len(argument) == _SIGNAL_SET // 2:
        return argument.ljust(_SIGNAL_SET, b"\0")
    return argument


_CALLS = ChangedCalls(
    _NUMBERS,
    _REQUESTS,
    _TERMINAL,
    {
        nr.OPEN: [(1, open_flags)],
        nr.OPENAT: [(2, open_flags)],
        nr.PIPE2: [(1, open_flags)],
        nr.EVENTFD2: [(1, open_flags)],
        nr.INOTIFY_INIT1: [(0, open_flags)],
        nr.TIMERFD_CREATE: [(1, open_flags)],
        nr.MMAP: [(3, lambda flags: moved(flags, _MAP_FLAGS))],
        nr.KILL: [(1, signal_of)],
        nr.TGKILL: [(2, signal_of)],
        nr.RT_SIGACTION: [(0, signal_of), (3, lambda _size: _SIGNAL_SET)],
        nr.RT_SIGTIMEDWAIT: [(3, lambda _size: _SIGNAL_SET)],
        nr.PPOLL: [(4, lambda _size: _SIGNAL_SET)],
        nr.EPOLL_PWAIT: [(5, lambda _size: _SIGNAL_SET)],
        nr.SOCKET: [(1, _socket_type)],
        nr.SOCKETPAIR: [(1, _socket_type)],
        nr.FCNTL: [(1, lambda command: _FCNTL.get(command, command))],
    },
)
request, terminal = _CALLS.request, _TERMINAL.of


def mips64_call(number: int, args: Args) -> tuple[int, Args]:
    """Return a call of x86-64 as mips64 has it."""
    if number == nr.FCNTL and args[1] == nr.F_SETFL and isinstance(args[2], int):
        args = *args[:2], open_flags(args[2])
    elif number in (nr.RT_SIGACTION, nr.RT_SIGTIMEDWAIT):
        args = tuple(map(_wider, args))
    return _CALLS.native(number, args)
