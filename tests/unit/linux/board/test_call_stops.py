# SPDX-License-Identifier: GPL-2.0-or-later

from kpfs.base import abi
from kpfs.linux.board.board import Board
from kpfs.linux.board.call_stops import CallStops


class FakeBoard(Board):
    def __init__(self):
        self.calls = []
        self.at = 0

    def set_calls(self, calls):
        self.calls = list(calls)

    def get(self, field):
        if field in (abi.Board.nr_lost, abi.Board.lost_told):
            return 0
        assert field == abi.Board.asked_at
        return self.at


def test_two_share_the_table_and_each_is_asked_for_its_own():
    board, asked = FakeBoard(), []
    stops = CallStops(board)

    def first(at):
        asked.append(("first", at))

    def second(at):
        asked.append(("second", at))
        stops.set(second, [(0x40, abi.NEVER)])

    stops.set(first, [(0x10, 8), (0x20, abi.NEVER)])
    stops.set(second, [(0x30, abi.NEVER)])
    assert board.calls == [(0x10, 8), (0x20, abi.NEVER), (0x30, abi.NEVER)]
    for board.at in (0x20, 0x30, 0x30, 0x40):
        stops.answer()
    assert asked == [("first", 0x20), ("second", 0x30), ("second", 0x40)]
    stops.set(first, [])
    assert board.calls == [(0x40, abi.NEVER)]


def test_the_table_has_room_for_so_many():
    board = FakeBoard()
    CallStops(board).set(print, [(at, 0) for at in range(1, 99)])
    assert len(board.calls) == abi.NR_CALLS
