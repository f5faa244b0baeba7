# SPDX-License-Identifier: GPL-2.0-or-later
"""Attributes of a process that the programs have which it executes.

The module imports nothing of the kernel, because every start waits for it.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from typing import Any, NamedTuple

from kpfs.base import host_process

_OOM = "/proc/self/oom_score_adj"
# Each kernel chooses the others itself, RLIMIT_NPROC and RLIMIT_SIGPENDING by its
# memory; programs that raise RLIMIT_MEMLOCK are tried against the kernel's own.
_LIMITS = frozenset(range(16)) - {resource.RLIMIT_NPROC, resource.RLIMIT_MEMLOCK, 11}
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
