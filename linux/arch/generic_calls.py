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
from kpfs.linux.arch.call_numbers import call_numbers

ABSENT = 0xFFF  # a number that no table has: ENOSYS
_FDCWD = nr.AT_FDCWD
_NUMBERS = call_numbers("generic")
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
# calls that have flags of open(): in which argument
_OPENING = {
    nr.OPEN: 1, nr.OPENAT: 2, nr.PIPE2: 1, nr.EVENTFD2: 1, nr.INOTIFY_INIT1: 0,
    nr.TIMERFD_CREATE: 1,
}  # fmt: skip


def with_flags(number: int, args: Args, open_flags: Callable[[int], int]) -> Args:
    """Return the arguments of a call, with open()'s flags as open_flags makes them."""
    at = _OPENING.get(number, len(args))
    if at < len(args) and isinstance(args[at], int):
        return (*args[:at], open_flags(args[at]), *args[at + 1 :])
    return args


def generic_call(
    number: int, args: Args, open_flags: Callable[[int], int] = int
) -> tuple[int, Args]:
    """Return a call of x86-64 as the generic table has it.

    open_flags: turns open()'s flags into the architecture's, if it has its own.
    """
    otherwise = _OTHERWISE.get(number)
    if otherwise is not None:
        number, args = otherwise(*args)
    if number == nr.POLL:
        return _NUMBERS[nr.PPOLL], _poll(*args)
    return _NUMBERS.get(number, ABSENT), with_flags(number, args, open_flags)


def _poll(fds: object, count: int, milliseconds: int) -> Args:
    if milliseconds < 0:
        return fds, count, 0, 0, 8
    seconds, rest = divmod(milliseconds, _TIMESPEC_MS)
    time = LITTLE_64.struct("2q").pack(seconds, rest * _NS)
    return fds, count, time, 0, 8
