# SPDX-License-Identifier: GPL-2.0-or-later
"""The options event-fork and function-fork: lists of pids that follow their tasks."""

from __future__ import annotations

from collections.abc import Collection

from kpfs.base.abi import HC_FOLLOW_FORK
from kpfs.engine.runtime.records import MAIL0
from kpfs.engine.runtime.runtime import Runtime
from kpfs.engine.trace.pids import PidSet


class FollowFork:
    """The lists, of all trace arrays, that children of listed tasks join at their fork.

    Each task leaves them when it is gone, even one that was written to the file.
    Kernel: trace_event_follow_fork(), ftrace_pid_follow_fork()
    """

    def __init__(self, runtime: Runtime) -> None:
        """Context: control."""
        self._runtime = runtime
        self._lists: list[PidSet] = []
        runtime.machine.traps.on_hypercall(HC_FOLLOW_FORK, self._hit)

    def switch(self, lists: Collection[PidSet], on: bool) -> None:
        """Have some lists follow, or no more.  Context: control."""
        others = [pids for pids in self._lists if pids not in lists]
        followed, self._lists = bool(self._lists), others + list(lists) * on
        if followed != bool(self._lists):
            func = self._runtime.symbols["kp_follow_fork"] if self._lists else 0
            self._runtime.machine.trace_events.follow_fork(func)

    def _hit(self, cpu: int) -> None:
        """A task has made another one, or is gone.  Context: hit."""
        mail = self._runtime.cpus[cpu]
        pid, task = mail.words[mail.base + MAIL0 : mail.base + MAIL0 + 2]
        for pids in self._lists:
            if pid:
                pids.follow_fork(pid, task)
            else:
                pids.follow_exit(task)
