# SPDX-License-Identifier: GPL-2.0-or-later
"""Python's side of what the board hides of kpfs's own tasks: see own.c."""

from __future__ import annotations

from collections.abc import Sequence

from kpfs.base import abi
from kpfs.linux.board.board import Board, address_of

_FIRST, _VALUES = abi.Board.hidden >> 3, abi.Board.hidden_values >> 3
_SEEN = abi.Board.seen >> 3
_BITS = 64


def set_hidden(
    board: Board, functions: Sequence[tuple[int, int]], regs_size: int
) -> None:
    """Have functions return at once for kpfs's own tasks.

    functions: address and value of each, abi.NEVER for none; at most abi.NR_HIDDEN.
    regs_size: bytes of a struct pt_regs, with which a task's stack ends.
    """
    nothing = [(0, abi.NEVER)] * (abi.NR_HIDDEN - len(functions))
    for number, (address, value) in enumerate((*functions, *nothing)):
        board.words[_FIRST + number] = address
        board.words[_VALUES + number] = value
    board.set(region=address_of(board.region), regs_size=regs_size)
    board.set_calls(board.calls)


def show(board: Board, slot: int, *, seen: bool) -> None:
    """Say whether the requests of a slot's task are those of a program."""
    word, bit = _SEEN + slot // _BITS, 1 << slot % _BITS
    board.words[word] = board.words[word] & ~bit | bit * seen
