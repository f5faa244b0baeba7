# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions that wait until no task can stand within text any more."""

from __future__ import annotations

from collections.abc import Callable

from kpfs.base.typed import NamedTuple
from kpfs.guest.running.cpu_states import CpuStates
from kpfs.guest.running.tasks import TaskTable


class Waiting(NamedTuple):
    """Functions that wait for the same tasks to pass a quiescent state."""

    turns: int  # had been run when they began to wait
    holdouts: dict[int, int]  # how many states the tasks had passed, by their addresses
    functions: list[Callable[[], None]]


class Quiescence:
    """The functions that wait.  Context: control."""

    def __init__(
        self, cpus: CpuStates, tasks: TaskTable, turns: Callable[[], int]
    ) -> None:
        """tasks: asked for those that may stand within text.

        turns: how many have been run.
        """
        self._cpus, self._tasks, self._turns = cpus, tasks, turns
        self._waiting: list[Waiting] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def call_after(self, func: Callable[[], None]) -> None:
        """Run func at a check after each task has passed a quiescent state.

        Then each has gone to sleep or called the scheduler by itself, or has begun
        since, so none stands where it was stopped or preempted within text.
        Kernel: call_rcu_tasks().
        """
        waiting, turns = self._waiting, self._turns()
        if not waiting or waiting[-1].turns != turns:
            waiting.append(Waiting(turns, self._holdouts(), []))
        waiting[-1].functions.append(func)

    def _current(self, *, idle: bool) -> set[int]:
        """Return the tasks that the CPUs are running which idle, or which do not."""
        cpus = self._cpus
        return {
            cpus.current(number) for number, one in enumerate(cpus.idle) if one == idle
        }

    def _holdouts(self) -> dict[int, int]:
        """Return the tasks that may stand anywhere, and their quiescent states so far.

        The idle task is one while it is interrupted.
        """
        if self._cpus.all_idle():
            return {}
        counts, running = self._tasks.quiescent_states, self._current(idle=False)
        return {task: counts(task) for task in {*self._tasks.runnable(), *running}}

    def check(self) -> None:
        """Run the functions that wait for no task any more."""
        if not self._waiting:
            return
        tasks, idle = self._tasks, self._current(idle=True)
        functions: list[Callable[[], None]] = []
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            for task, count in [*each.holdouts.items()]:
                if (
                    task in idle
                    or not tasks.is_runnable(task)
                    or tasks.quiescent_states(task) != count
                ):
                    del each.holdouts[task]
            if each.holdouts:
                self._waiting.append(each)
            else:
                functions += each.functions
        for func in functions:
            func()
