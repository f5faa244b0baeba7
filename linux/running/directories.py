# SPDX-License-Identifier: GPL-2.0-or-later
"""Detects changes of a kernel's directories since the image was made.

Below tracefs, /proc/sys and /sys/module only events, instances and the entries of
modules come and go, and all of these stand in three lists of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kpfs.linux.board.board import Board
from kpfs.linux.memory.memory import KernelMemory
from kpfs.linux.memory.structures import Structures
from kpfs.linux.running.heads import Heads
from kpfs.linux.running.machine import Op, only_look

HEADS = "modules", "dyn_event_list", "ftrace_trace_arrays"


class Directories:
    """Watches the directories of one machine. Context: its lock is held.

    While ``as_made`` is true, the entries that exist now stay, but for those of tasks.
    """

    def __init__(
        self,
        board: Board,
        saved: KernelMemory,
        structures: Structures,
        on_change: Callable[[], None],
    ) -> None:
        """saved: the image's memory; on_change: called when something may differ."""
        self.on_change = on_change
        self._heads = Heads(board, saved, structures, HEADS)
        self.as_made = self._heads.unchanged()

    def ran(self, ops: Sequence[Op]) -> None:
        """Look for changes after system calls, or after time has passed without one."""
        before, now = self.as_made, self._heads.unchanged()
        self.as_made = now
        if before != now or not (now or only_look(ops)):
            self.on_change()
