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
from kpfs.linux.arch.call_numbers import call_numbers
from kpfs.linux.arch.changed import ChangedCalls, Terminal, moved

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
_LIMITS = {5: 7, 6: 8, 7: 5, 8: 9, 9: 6}  # RLIMIT_RSS, NPROC, NOFILE, MEMLOCK, AS
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
    call_numbers("mips64"),
    _REQUESTS,
    _TERMINAL,
    _OPEN_FLAGS,
    {
        nr.MMAP: [(3, lambda flags: moved(flags, _MAP_FLAGS))],
        nr.KILL: [(1, signal_of)],
        nr.PRLIMIT64: [(1, lambda number: _LIMITS.get(number, number))],
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
open_flags, request, terminal = _CALLS.open_flags, _CALLS.request, _TERMINAL.of


def mips64_call(number: int, args: Args) -> tuple[int, Args]:
    """Return a call of x86-64 as mips64 has it."""
    if number == nr.FCNTL and args[1] == nr.F_SETFL and isinstance(args[2], int):
        args = *args[:2], open_flags(args[2])
    elif number in (nr.RT_SIGACTION, nr.RT_SIGTIMEDWAIT):
        args = tuple(map(_wider, args))
    return _CALLS.native(number, args)
