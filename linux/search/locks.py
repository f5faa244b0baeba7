# SPDX-License-Identifier: GPL-2.0-or-later
"""Python's side of board/search/locks.c: orders in which text has taken locks."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from kpfs.base import abi, mapping
from kpfs.base.structures import fields
from kpfs.linux.board.board import address_of

if TYPE_CHECKING:
    from kpfs.linux.board.board import Board
    from kpfs.linux.memory.modules import LoadedModule
    from kpfs.linux.search.texts import FindingRow, Texts

_BITS = 16  # a finding has the numbers of orders in pieces of so many


class OrderRow(ctypes.Structure):
    """struct lock_order."""

    _fields_ = fields(abi.LockOrder)


class Locks:
    """The orders of locks of one kernel.  Context: the kernel stands still."""

    def __init__(self, board: Board, texts: Texts) -> None:
        self._board = board
        self._memory = mapping.make(abi.Locks.SIZE)
        texts.set(locks=address_of(self._memory))

    def circle(self, row: FindingRow) -> list[OrderRow]:
        """Return the orders of a finding: each lock is held as the next is taken."""
        numbers = [row.b >> _BITS * n & (1 << _BITS) - 1 for n in range(row.a)]
        at, size = abi.Locks.orders, abi.LockOrder.SIZE
        return [OrderRow.from_buffer_copy(self._memory, at + n * size) for n in numbers]

    def end_module(self, module: LoadedModule) -> None:
        """Forget the locks in the memory of a module that is freed."""
        for start, end in module.parts:
            if start < end:
                self._board.forget_locks(start, end - start)
