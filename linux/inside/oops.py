# SPDX-License-Identifier: GPL-2.0-or-later
"""Find out whether an oops has killed a process of kpfs in the kernel.

The kernel goes on after most oopses, without the task that has met it. If that was a
worker, a command would wait for it without an end, or lose files or output.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

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
        memory, symbols = self._memory()
        structures = Structures(memory, symbols)
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

    def told(self) -> str:
        """Return the last oops in the kernel's words, with the place."""
        memory, symbols = self._memory()
        lines = [line.text for line in read_log(memory, symbols)]
        numbers = [at for at, line in enumerate(lines) if _NUMBER.search(line)]
        if not numbers:
            return "an oops"
        at = numbers[-1]
        near = lines[max(at - _NEAR, 0) : at + 1]
        cause = next(filter(_CAUSE.search, reversed(near[:-1])), near[-1])
        places = filter(None, map(_PLACE.match, lines[at : at + _NEAR]))
        place = next((f" at {found['where']}" for found in places), "")
        return f"{cause}{place}"

    def _memory(self) -> tuple[LiveMemory, CoreSymbols]:
        symbols = CoreSymbols(os.path.join(self._folder, image.SYMBOLS))
        return LiveMemory(self._board), symbols
