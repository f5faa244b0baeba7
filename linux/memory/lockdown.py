# SPDX-License-Identifier: GPL-2.0-or-later
"""How far a kernel is locked down, and what it refuses for that.

Kernel: kernel_lockdown(7), lockdown_is_locked_down(), lockdown_reasons
"""

from __future__ import annotations

from functools import cached_property

from kpfs.linux.memory.memory import KernelMemory
from kpfs.linux.memory.structures import Structures

LOCKED = "the kernel is locked down"  # begins each sentence
# the kernel's words for what it may refuse
TRACEFS, KPROBES = "use of tracefs", "use of kprobes"
MAX_REASONS = 64


class LockdownState:
    """The state of a kernel in its memory, which may change at any time."""

    def __init__(self, memory: KernelMemory, structures: Structures) -> None:
        self._memory, self._structures = memory, structures

    @property
    def level(self) -> int:
        """How far the kernel is locked down, 0 if it is not."""
        at = self._level_at
        return self._memory.number(at, 4) if at else 0

    @cached_property
    def _level_at(self) -> int:  # a symbol takes a millisecond to find
        return self._structures.data("kernel_locked_down")[0]

    def _words(self, number: int) -> str:
        at, _ = self._structures.data("lockdown_reasons")
        if not at:
            return ""
        return self._memory.string(
            self._memory.word(at + self._memory.model.long * number)
        )

    def refusal(self, number: int) -> str:
        """Return a sentence if what has that number is refused, else ""."""
        level = self.level
        if level < number:
            return ""
        return f"{LOCKED} ({self._words(level)}), so: no {self._words(number)}"

    def refusal_of(self, what: str) -> str:
        """Return the same for what the kernel calls so."""
        for number in range(1, min(self.level, MAX_REASONS) + 1):
            if self._words(number) == what:
                return self.refusal(number)
        return ""
