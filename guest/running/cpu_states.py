# SPDX-License-Identifier: GPL-2.0-or-later
"""States of the virtual CPUs: whether each idles, and what it is to do next.

A CPU's half of it in the guest is its struct kpfs_pcpu.  Context: either.
"""

from __future__ import annotations

import struct

from kpfs.base import abi
from kpfs.guest.emu.memory import Memory

NO_DEADLINE = 0xFFFF_FFFF_FFFF_FFFF
_CURRENT_AT = abi.KpfsPcpu.current_task
_I32 = struct.Struct("<i")
_U64 = struct.Struct("<Q")


class CpuStates:
    """The virtual CPUs by number."""

    def __init__(self, memory: Memory) -> None:
        self._ram, self._translate = memory.ram, memory.translate
        self.pcpu: list[int] = []  # offset in RAM of each struct kpfs_pcpu
        self.resched_at: list[int] = []  # offset of its need_resched
        self.idle: list[bool] = []  # waits for an interrupt
        self.pending: list[list[int]] = []  # entries of interrupts to be delivered

    def add(self, pcpu: int) -> None:
        """Add one that is about to start; pcpu is a virtual address."""
        at = self._translate(pcpu, abi.KpfsPcpu.SIZE)
        self.pcpu.append(at)
        self.resched_at.append(at + abi.KpfsPcpu.need_resched)
        self.idle.append(False)
        self.pending.append([])

    def interrupt(self, number: int, entry: int) -> None:
        """Deliver an interrupt as soon as that CPU allows it."""
        if entry not in self.pending[number]:
            self.pending[number].append(entry)

    def runnable(self, number: int) -> bool:
        """Return True if the CPU has anything to do."""
        if not self.idle[number] or self.pending[number]:
            return True
        return bool(_I32.unpack_from(self._ram, self.resched_at[number])[0])

    def all_idle(self) -> bool:
        if False in self.idle or any(self.pending):
            return False
        ram = self._ram
        for at in self.resched_at:
            if _I32.unpack_from(ram, at)[0]:
                return False
        return True

    def is_only(self, number: int) -> bool:
        """Return True if no other CPU has anything to do, and none an interrupt."""
        idle = self.idle
        for other, at in enumerate(self.resched_at):
            if other != number and (
                not idle[other] or _I32.unpack_from(self._ram, at)[0]
            ):
                return False
        return not any(self.pending)

    def current(self, number: int) -> int:
        """Return the address of the task that a CPU is running."""
        address: int = _U64.unpack_from(self._ram, self.pcpu[number] + _CURRENT_AT)[0]
        return address

    def next_deadline(self) -> int | None:
        """Return when a CPU first wants its timer interrupt; None: no CPU does."""
        ram, first = self._ram, NO_DEADLINE
        for at in self.pcpu:
            deadline: int = _U64.unpack_from(ram, at + abi.KpfsPcpu.next_deadline)[0]
            if deadline < first:
                first = deadline
        return None if first == NO_DEADLINE else first

    def expire(self, now: int, entry: int) -> None:
        """Make an interrupt pending on the CPUs whose deadline has come."""
        for number, at in enumerate(self.pcpu):
            if _U64.unpack_from(self._ram, at + abi.KpfsPcpu.next_deadline)[0] <= now:
                self.interrupt(number, entry)
