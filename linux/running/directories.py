# SPDX-License-Identifier: GPL-2.0-or-later
"""Find out whether a kernel's directories are as they were in the image.

What comes and goes below tracefs, /proc/sys and /sys/module are events, instances and
what modules bring, all of which stand in three lists of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kpfs.linux.board.board import Board
from kpfs.linux.memory.memory import KernelMemory
from kpfs.linux.memory.symbols import Symbols
from kpfs.linux.running.heads import Heads
from kpfs.linux.running.machine import Op, only_look

HEADS = "modules", "dyn_event_list", "ftrace_trace_arrays"


class Directories:
    """Watches the directories of one machine.  Context: its lock is held.

    ``as_made``: what is there now, but for what belongs to tasks, stays.
    """

    def __init__(
        self,
        board: Board,
        saved: KernelMemory,
        symbols: Symbols,
        on_change: Callable[[], None],
    ) -> None:
        """saved: as it is in the image; on_change: told when something may differ."""
        self.on_change = on_change
        self._heads = Heads(board, saved, symbols, HEADS)
        self.as_made = self._heads.unchanged()

    def ran(self, ops: Sequence[Op]) -> None:
        """Find out what system calls may have changed, or, without, what time has."""
        before, now = self.as_made, self._heads.unchanged()
        self.as_made = now
        if before != now or not (now or only_look(ops)):
            self.on_change()
