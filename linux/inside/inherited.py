# SPDX-License-Identifier: GPL-2.0-or-later
"""Attributes and descriptors of a process that the programs have which it executes.

The module imports nothing of the kernel, because every start waits for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import resource
import signal
import stat
from collections.abc import Sequence
from typing import Any, NamedTuple

from kpfs.base import host_process

_NULL = os.makedev(1, 3)
_OOM = "/proc/self/oom_score_adj"
# Each kernel chooses the others itself, RLIMIT_NPROC and RLIMIT_SIGPENDING by its
# memory; programs that raise RLIMIT_MEMLOCK are tried against the kernel's own.
_LIMITS = frozenset(range(16)) - {resource.RLIMIT_NPROC, resource.RLIMIT_MEMLOCK, 11}
_STANDARD, _FURTHER = range(3), range(3, 64)  # descriptors
_MOST = 16  # further ones of a command
_JOBSERVER = re.compile(r"--jobserver-(?:auth|fds)=(\d+),(\d+)")
# Python ignores two of them, whatever it has inherited; kpfs waits for its children
_OURS = frozenset((signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD))


class Inherited(NamedTuple):
    """Attributes of the caller that a command has, beside words, user, directory."""

    umask: int = 0o022
    nice: int = 0
    ignored: tuple[int, ...] = ()  # signals
    limits: tuple[tuple[int, int, int], ...] = ()  # number, soft and hard limit
    oom_score_adj: int = 0
    no_new_privs: bool = False

    @classmethod
    def unpacked(cls, row: list[Any]) -> Inherited:
        """Return what JSON has made a list of."""
        made = cls(*row)
        limits = tuple((number, soft, hard) for number, soft, hard in made.limits)
        return made._replace(ignored=tuple(made.ignored), limits=limits)


def of_process() -> Inherited:
    """Return the attributes of this process."""
    umask = os.umask(0o022)
    os.umask(umask)
    status = host_process.status(os.getpid())
    ignored = int(status.get(b"SigIgn", b"0"), 16)
    oom_score_adj = 0
    with contextlib.suppress(OSError, ValueError), open(_OOM) as file:
        oom_score_adj = int(file.read())
    return Inherited(
        umask,
        os.getpriority(os.PRIO_PROCESS, 0),
        tuple(n for n in range(1, 65) if ignored >> n - 1 & 1 and n not in _OURS),
        tuple((n, *resource.getrlimit(n)) for n in sorted(_LIMITS)),
        oom_score_adj,
        status.get(b"NoNewPrivs") == b"1",
    )


def is_null(fd: int) -> bool:
    """Return True for /dev/null, which a program may tell from all else."""
    st = os.fstat(fd)
    return stat.S_ISCHR(st.st_mode) and st.st_rdev == _NULL


def mode_of(fd: int) -> int:
    """Return what a descriptor is open for: O_RDONLY, O_WRONLY or O_RDWR."""
    return fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE


def further() -> tuple[int, ...]:
    """Return the descriptors of a command beside the standard ones, as of ``<(...)``.

    They are pipes and files that are open in one direction, /dev/null, and the
    terminal that is a standard stream, too.  A jobserver of make is left out: its pipe
    would be read ahead.
    """
    terminals = [os.fstat(fd).st_rdev for fd in _STANDARD if os.isatty(fd)]
    jobserver = _JOBSERVER.search(os.environ.get("MAKEFLAGS", ""))
    left_out = set(map(int, jobserver.groups())) if jobserver else set()
    made = []
    for fd in _FURTHER:
        with contextlib.suppress(OSError):  # it is not open
            if os.get_inheritable(fd) and _can_be_passed(fd, terminals):
                made.append(fd)
    return tuple(fd for fd in made if fd not in left_out)[:_MOST]


def _can_be_passed(fd: int, terminals: Sequence[int]) -> bool:
    st = os.fstat(fd)
    if stat.S_ISFIFO(st.st_mode) or stat.S_ISREG(st.st_mode):
        is_path = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_PATH
        return mode_of(fd) != os.O_RDWR and not is_path
    return is_null(fd) or (os.isatty(fd) and st.st_rdev in terminals)


def same_stream(fd: int, other: int) -> bool:
    """Return True if what is read from one descriptor is gone for the other one.

    The signal of O_ASYNC belongs to the open file.  kcmp(2) may be denied.
    """
    one, two = os.fstat(fd), os.fstat(other)
    if not os.path.samestat(one, two) or stat.S_ISFIFO(one.st_mode):
        return os.path.samestat(one, two)
    before = fcntl.fcntl(fd, fcntl.F_GETSIG)
    probe = signal.SIGURG if before != signal.SIGURG else signal.SIGIO
    fcntl.fcntl(fd, fcntl.F_SETSIG, probe)
    try:
        return fcntl.fcntl(other, fcntl.F_GETSIG) == probe
    finally:
        fcntl.fcntl(fd, fcntl.F_SETSIG, before)
