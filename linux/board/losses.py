# SPDX-License-Identifier: GPL-2.0-or-later
"""Python's side of what the board notes that the kernel loses: see lost.c."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kpfs.base import abi
from kpfs.linux.board.board import Board

_FIRST, _LOST = abi.Board.losses >> 3, abi.Board.lost >> 3
_CPUS = abi.Board.per_cpu >> 3


class LossSite(NamedTuple):
    """A function that may lose something.  The fields are those of struct loss."""

    addr: int
    size: int
    kind: int  # abi.LOSS_*
    argument: int = 0
    shift: int = 0
    place: int = 0
    needs: int = abi.NEVER
    key: int = abi.NEVER
    regs: int = 0


class LostRow(NamedTuple):
    """The losses of one object at one function.  The fields are struct lost."""

    site: int
    object: int
    key: int
    times: int
    others: int
    out: int
    most: int


def set_sites(
    board: Board, sites: Sequence[LossSite], cpu_offsets: Sequence[int]
) -> None:
    """Have the board look at these functions, in place of earlier ones.

    sites: at most abi.NR_LOSSES. cpu_offsets: of each CPU's per-CPU data.
    """
    width = len(LossSite._fields)
    nothing = [LossSite(0, 0, abi.LOSS_NONE)] * (abi.NR_LOSSES - len(sites))
    words = board.words
    for number, site in enumerate((*sites, *nothing)):
        for field, value in enumerate(site):
            words[_FIRST + number * width + field] = value
    for cpu, offset in enumerate(cpu_offsets[: abi.MAX_CPUS]):
        words[_CPUS + cpu] = offset
    board.set_calls(board.calls)


def read_lost(board: Board, first: int = 0) -> list[LostRow]:
    """Return what was lost, from the first-th row on."""
    width = len(LostRow._fields)
    begins = range(first, board.get(abi.Board.nr_lost))
    words = (board.words[_LOST + width * n : _LOST + width * (n + 1)] for n in begins)
    return [LostRow(*each) for each in words]


def mark_told(board: Board) -> None:
    """Note that the host knows all rows: only new ones stop the board again."""
    board.set(lost_told=board.get(abi.Board.nr_lost))
