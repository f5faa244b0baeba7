# SPDX-License-Identifier: GPL-2.0-or-later
"""Find out whether an oops has killed a process of kpfs in the kernel.

The kernel goes on after most oopses, without the task that has met it. If that was a
worker, a command would wait for it without an end, or lose files or output.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from kpfs.base.errors import MemoryFault
from kpfs.linux.memory import dmesg
from kpfs.linux.memory.structures import View
from kpfs.linux.memory.tasks import TaskList
from kpfs.linux.running.kernel_on_board import KernelOnBoard

_TAINTS, _SIZE = "tainted_mask", 8
_TAINT_DIE, _TAINT_WARN = 1 << 7, 1 << 9
_EXITING = 4  # PF_EXITING, which a killed task keeps, however it ends
_UNINTERRUPTIBLE, _IDLE = 2, 0x400  # in the state of a task
_WARNING, _CUT = "WARNING: ", "------------[ cut here ]------------"
# what the kernel says of a task that met an oops while it ended: it stays for ever
_NEVER_ENDS = "Fixing recursive fault but reboot is needed"
STUCK_PATIENCE = 20.0  # s for which a command may go on with a task that is stuck


def find(kernel: KernelOnBoard) -> int:
    """Return the offset in RAM of the kernel's taints; -1: it has no such symbol."""
    address = kernel.symbols.address(_TAINTS)
    return kernel.machine.board.translate(address) if address else -1


class Oopses:
    """The effects of oopses on the tasks of one kernel."""

    def __init__(self, kernel: KernelOnBoard, taints: int) -> None:
        """taints: from find()."""
        self._kernel, self._taints = kernel, taints
        self._at_first = self._mask()
        self._before: frozenset[int] = frozenset()
        self._endless_since = 0.0  # 0: each task can end
        # of the tasks that wait: how often they had a processor, and since when
        self._waits: dict[int, tuple[int, float]] = {}

    def _mask(self) -> int:
        board, at = self._kernel.machine.board, self._taints
        return board.arch.model.number(board.ram[at : at + _SIZE]) if at >= 0 else 0

    def happened(self) -> bool:
        """Return True if there was an oops since the kernel was started."""
        return bool(self._mask() & _TAINT_DIE)

    def first(self) -> list[str]:
        """Return the first oops since this was made, and a warning that came earlier.

        The oops tells why a command died, the warning often what led to it.
        """
        if not (self._mask() & ~self._at_first & (_TAINT_DIE | _TAINT_WARN)):
            return []
        lines, found = self._log(), list[str]()
        for at, line in enumerate(lines):
            if dmesg.OOPS_NUMBER.search(line):
                return [dmesg.oops_at(lines, at), *found]
            if line.startswith(_WARNING) and not found:
                said = lines[at - 1] if at else ""
                cut = lines[max(at - 2, 0)] == _CUT
                found.append(f"{line}: {said}" if cut else line)
        return found or ["an oops or a warning, which its log has no more"]

    def have_killed(self, pids: Iterable[int]) -> bool:
        """Return True if one of these tasks was dead at the call before, and still is.

        One that ends as it should is soon gone from them.
        """
        before, self._before = self._before, frozenset(self._dead(pids))
        return bool(before & self._before)

    def _dead(self, pids: Iterable[int]) -> set[int]:
        """Return those of these tasks that have ended, or are about to."""
        if not self._kernel.structures["task_struct"].has("flags"):
            return set()
        views = self._tasks()
        if views is None:
            return set()
        alive = {
            view.number("pid", 4)
            for view in views
            if not view.number("flags", 4) & _EXITING
        }
        return {*pids} - alive

    def _tasks(self) -> list[View] | None:
        """Return the first tasks of all processes; None: the list is being changed."""
        kernel, layout = self._kernel, self._kernel.structures["task_struct"]
        tasks = TaskList(kernel.memory, kernel.symbols, kernel.structures)
        try:
            return [View(kernel.memory, layout, each) for each in tasks.leaders()]
        except MemoryFault:
            return None

    def stuck(self) -> str:
        """Return what a task does that is stuck for STUCK_PATIENCE; "": there is none.

        One cannot end, or waits for what one has left locked that is gone. Whoever
        waits for it waits for ever, and so do all that need its locks.
        """
        now = time.monotonic()
        if not self._endless_since and any(_NEVER_ENDS in row for row in self._log()):
            self._endless_since = now
        if 0 < self._endless_since < now - STUCK_PATIENCE:
            return "cannot end"
        self._look_at_waits(now)
        if any(since < now - STUCK_PATIENCE for _, since in self._waits.values()):
            return "waits without an end"
        return ""

    def _look_at_waits(self, now: float) -> None:
        """Note the programs that wait uninterruptibly, and since when each does."""
        before, self._waits = self._waits, {}
        for view in self._tasks() or ():
            state = view.number("__state", 4) | view.number("state", 4)
            if not state & _UNINTERRUPTIBLE or state & _IDLE or not view.word("mm"):
                continue
            ran = view.word("nvcsw") + view.word("nivcsw")
            pid = view.number("pid", 4)
            ran_before, since = before.get(pid, (-1, now))
            self._waits[pid] = ran, since if ran == ran_before else now

    def _log(self) -> list[str]:
        return [row.text for row in self._kernel.dmesg()]

    def told(self) -> str:
        """Return the last oops in the kernel's words, with the place."""
        return dmesg.last_oops(self._log()) or "an oops"
