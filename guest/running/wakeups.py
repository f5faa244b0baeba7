# SPDX-License-Identifier: GPL-2.0-or-later
"""The CPU that makes a task's request, and the tasks that a CPU is to wake for one."""

from __future__ import annotations

import errno
import struct

from kpfs.base.abi import WAKEUPS_MAX
from kpfs.base.errors import KernelError
from kpfs.guest.emu.memory import Memory
from kpfs.guest.running.cpu_states import CpuStates
from kpfs.guest.running.hosttask import HostTask
from kpfs.guest.running.lockups import Lockups

_WAKEUP = struct.Struct("<2Q")  # struct kpfs_wakeups, with one task
_WAKEUPS_SIZE = 8 * (1 + WAKEUPS_MAX)
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class Wakeups:
    """The struct kpfs_wakeups of the CPUs.  Context: control."""

    def __init__(
        self, memory: Memory, cpus: CpuStates, lockups: Lockups, first: int
    ) -> None:
        """first: the offset in RAM of the first CPU's."""
        self._ram, self._first = memory.ram, first
        self._cpus, self._lockups = cpus, lockups

    def own_cpu(self, task: HostTask) -> int:
        """Return the task's CPU, or one that its process is pinned to."""
        number: int = _U32.unpack_from(self._ram, task.cpu_at)[0]
        return number if not task.cpus or number in task.cpus else task.cpus[0]

    def choose(self, task: HostTask, working: set[int]) -> int:
        """Return the CPU on which a request is to run.

        It is the task's own, unless it is held or runs another thread's request, and
        another is not or does not. A pinned task leaves its CPUs only if all are held.
        working: the addresses of the tasks whose requests threads run.
        """
        states, own, cpus = self._cpus, self.own_cpu(task), task.cpus
        nr_cpus = len(states.idle)

        def taken(number: int) -> tuple[bool, bool, bool, int]:
            forbidden = bool(cpus) and number not in cpus
            busy = states.current(number) in working
            held = self._lockups.is_held(number)
            return held, forbidden, busy, (number - own) % nr_cpus

        return min(range(nr_cpus), key=taken)

    def at(self, number: int) -> int:
        """Return the offset in RAM of a CPU's."""
        return self._first + number * _WAKEUPS_SIZE

    def set(self, number: int, task: int) -> None:
        """Have a CPU wake this task alone."""
        _WAKEUP.pack_into(self._ram, self.at(number), 1, task)

    def add(self, number: int, task: int) -> None:
        """List one more task to be woken by a CPU, which may have to do so for others.

        EAGAIN: there are too many.
        """
        at = self.at(number)
        listed: int = _U64.unpack_from(self._ram, at)[0]
        if listed == WAKEUPS_MAX:
            raise KernelError(errno.EAGAIN, f"too many requests for CPU {number}")
        _U64.pack_into(self._ram, at + 8 + 8 * listed, task)
        _U64.pack_into(self._ram, at, listed + 1)

    def remove(self, number: int, task: int) -> None:
        """Take a task that was woken otherwise off the list: it may end soon."""
        at = self.at(number)
        words = memoryview(self._ram)[at : at + _WAKEUPS_SIZE].cast("Q")
        left = [other for other in words[1 : 1 + words[0]] if other != task]
        words[0] = len(left)
        for index, other in enumerate(left, 1):
            words[index] = other
