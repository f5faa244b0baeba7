# SPDX-License-Identifier: GPL-2.0-or-later
"""Find out whether an oops has killed a process of kpfs in the kernel.

The kernel goes on after most oopses, without the task that has met it. If that was a
worker, a command would wait for it without an end, or lose files or output.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from functools import cached_property

from kpfs.base.errors import MemoryFault
from kpfs.linux.board.board import Board
from kpfs.linux.memory.dmesg import read_log
from kpfs.linux.memory.memory import LiveMemory
from kpfs.linux.memory.structures import Structures, View
from kpfs.linux.memory.symbols import CoreSymbols
from kpfs.linux.memory.tasks import TaskList
from kpfs.linux.store import image

_TAINTS, _SIZE = "tainted_mask", 8
_TAINT_DIE = 1 << 7
_EXITING = 4  # PF_EXITING, which a killed task keeps, however it ends
_NUMBER = re.compile(r"\[#\d+\]")  # of an oops
_CAUSE = re.compile(r"BUG|Unable to handle|[Gg]eneral protection|invalid opcode")
_PLACE = re.compile(r"^(RIP|pc|epc) *: ?(?:\d{4}:)?(?P<where>\S+)")
# what the kernel says of a task that met an oops while it ended: it stays for ever
_STUCK = "Fixing recursive fault but reboot is needed"
STUCK_PATIENCE = 20.0  # s for which a command may go on after that
_NEAR = 8  # lines from an oops's number to its cause, and to its place


def find(folder: str, board: Board) -> int:
    """Return the offset in RAM of the kernel's taints; -1: it has no such symbol."""
    symbols = CoreSymbols(os.path.join(folder, image.SYMBOLS))
    address = symbols.address(_TAINTS)
    return board.translate(address) if address else -1


class Oopses:
    """What oopses have done to the tasks of one kernel."""

    def __init__(self, board: Board, folder: str, taints: int) -> None:
        """folder: of the image. taints: from find()."""
        self._board, self._folder, self._taints = board, folder, taints
        self._before: frozenset[int] = frozenset()
        self._stuck_since = 0.0  # 0: no task is

    def happened(self) -> bool:
        """Return True if there was an oops since the kernel was started."""
        raw = self._board.ram[self._taints : self._taints + _SIZE]
        return self._taints >= 0 and bool(int.from_bytes(raw, "little") & _TAINT_DIE)

    def have_killed(self, pids: Iterable[int]) -> bool:
        """Return True if one of these tasks was dead at the call before, and still is.

        One that ends as it should is soon gone from them.
        """
        before, self._before = self._before, frozenset(self._dead(pids))
        return bool(before & self._before)

    def _dead(self, pids: Iterable[int]) -> set[int]:
        """Return those of these tasks that have ended, or are about to."""
        (memory, symbols), structures = self._memory, self._structures
        layout = structures["task_struct"]
        if not layout.has("flags"):
            return set()
        try:
            tasks = TaskList(memory, symbols, structures).leaders()
            views = [View(memory, layout, address) for address in tasks]
        except MemoryFault:  # the list is being changed
            return set()
        alive = {
            view.number("pid", 4)
            for view in views
            if not view.number("flags", 4) & _EXITING
        }
        return {*pids} - alive

    def stuck(self) -> bool:
        """Return True if a task that cannot end has been there for STUCK_PATIENCE.

        Whoever waits for it waits for ever, and so do all that need its locks.
        """
        if not self._stuck_since and any(_STUCK in line for line in self._log()):
            self._stuck_since = time.monotonic()
        since = self._stuck_since
        return since > 0 and time.monotonic() - since > STUCK_PATIENCE

    def _log(self) -> list[str]:
        return [line.text for line in read_log(*self._memory)]

    def told(self) -> str:
        """Return the last oops in the kernel's words, with the place."""
        lines = self._log()
        numbers = [at for at, line in enumerate(lines) if _NUMBER.search(line)]
        if not numbers:
            return "an oops"
        at = numbers[-1]
        near = lines[max(at - _NEAR, 0) : at + 1]
        cause = next(filter(_CAUSE.search, reversed(near[:-1])), near[-1])
        places = filter(None, map(_PLACE.match, lines[at : at + _NEAR]))
        place = next((f" at {found['where']}" for found in places), "")
        return f"{cause}{place}"

    @cached_property
    def _structures(self) -> Structures:
        return Structures(*self._memory)  # to read them takes a second

    @cached_property
    def _memory(self) -> tuple[LiveMemory, CoreSymbols]:
        symbols = CoreSymbols(os.path.join(self._folder, image.SYMBOLS))
        return LiveMemory(self._board), symbols
