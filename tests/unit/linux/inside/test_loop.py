# SPDX-License-Identifier: GPL-2.0-or-later
"""Time of programs that wait while no other task can run."""

from typing import Any

import pytest

from kpfs.base import abi
from kpfs.linux.arch.arches import X86_64
from kpfs.linux.inside.loop import LEAD_NS, Loop
from kpfs.linux.running import machine as of_machine
from kpfs.linux.running.machine import Machine
from tests.there import stand_in

SECOND = 1_000_000_000


class Board:
    """A board on which only the agent runs, and a task sleeps."""

    def __init__(self) -> None:
        self.arch = X86_64
        self.region = bytearray(abi.SLOTS_AT)
        self.ram = b""
        self.blocks = 0
        self.values: dict[int, int] = {
            abi.Board.now: 0,
            abi.Board.deadline: abi.NEVER,
            abi.Board.who: 0,
        }

    def get(self, what: int) -> int:
        return self.values[what]

    def set(self, **values: int) -> None:
        for name, value in values.items():
            self.values[getattr(abi.Board, name)] = value

    def run(self) -> int:
        return abi.STOP_PAUSE


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The host's clock, in ns."""
    clock = [0]
    monkeypatch.setattr(of_machine, "monotonic_ns", lambda: clock[0])
    return clock


@pytest.mark.parametrize("ahead", [0, LEAD_NS, 10 * SECOND])
def test_sleep_counts_from_the_guests_clock(host: list[int], ahead: int):
    board: Any = Board()
    loop = Loop(Machine(stand_in(board)))
    begin = 1000 + ahead
    board.set(now=begin, deadline=begin + SECOND)
    loop.step()
    assert board.get(abi.Board.now) == begin
    host[0] += SECOND + 1000 - LEAD_NS
    loop.step()
    assert board.get(abi.Board.now) <= begin + SECOND
    host[0] += LEAD_NS
    loop.step()
    assert board.get(abi.Board.now) == begin + SECOND
