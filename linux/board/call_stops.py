# SPDX-License-Identifier: GPL-2.0-or-later
"""The places in the kernel's code before which the board asks the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kpfs.base import abi
from kpfs.linux.board import losses
from kpfs.linux.board.board import Board

Asked = Callable[[int], object]


class CallStops:
    """Shares the board's table among those who want to be asked."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._rows: dict[Asked, Sequence[tuple[int, int]]] = {}
        self._on_loss: Callable[[], object] = lambda: None

    def set(self, asked: Asked, calls: Sequence[tuple[int, int]]) -> None:
        """Have a function called with each of these addresses before it is run.

        calls: as of Board.set_calls(), in place of its earlier ones.
        """
        self._rows[asked] = calls
        self._set()

    def follow_losses(self, on_loss: Callable[[], object]) -> None:
        """Have a function called when something loses for the first time.

        See kpfs.linux.board.losses.
        """
        self._on_loss = on_loss

    def move(self, board: Board) -> None:
        """Be those of another board from now on."""
        self._board = board
        if self._rows:
            self._set()

    def _set(self) -> None:
        rows = [call for calls in self._rows.values() for call in calls]
        self._board.set_calls(rows[: abi.NR_CALLS])

    def answer(self) -> None:
        """Act on a stop of the board.  Context: the processor is at the place."""
        if self._board.get(abi.Board.nr_lost) > self._board.get(abi.Board.lost_told):
            self._on_loss()
            losses.mark_told(self._board)
        at = self._board.get(abi.Board.asked_at)
        for asked, calls in list(self._rows.items()):
            if any(address == at for address, _ in calls):
                asked(at)
