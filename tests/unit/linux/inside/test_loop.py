# SPDX-License-Identifier: GPL-2.0-or-later
"""Time of programs that wait while no other task can run."""

import itertools
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from kpfs.base import abi
from kpfs.linux.arch.arches import X86_64
from kpfs.linux.inside.loop import LEAD_NS, TURNS, Loop
from kpfs.linux.running import machine as of_machine
from kpfs.linux.running.machine import LinuxMachine, MachineDiedError
from tests.there import stand_in

SECOND = 1_000_000_000


KERNEL, PROGRAM = 1 << 63, 0x1000


class BusyBoard:
    """A board that ends turn after turn, at these addresses, and pauses at 0."""

    def __init__(self, places: Iterator[int]) -> None:
        self.arch = X86_64
        self.region = bytearray(abi.SLOTS_AT)
        self.ram = b""
        self.places = places
        self.place = 0
        self.blocks = 1
        self.stops = None
        self.counter = SimpleNamespace(hooks_need_no_pc=0)

    def get(self, what: int) -> int:
        return {abi.Board.deadline: abi.NEVER, abi.Board.nr_cpus: 1}.get(what, 0)

    def get_cpu(self, _number: int, _field: int) -> int:
        return 0

    def set(self, **_values: int) -> None:
        pass

    def read_reg(self, _register: int) -> int:
        return self.place

    def translate(self, _address: int) -> int:
        return len(self.ram)

    def run(self) -> int:
        self.place = next(self.places)
        return abi.STOP_TURN if self.place else abi.STOP_PAUSE


@pytest.mark.parametrize(
    ("cycle", "dies"),
    [
        ([KERNEL], True),
        ([PROGRAM], False),
        ([KERNEL] * 5 + [PROGRAM], False),
        ([KERNEL] * 5 + [0], False),  # the agent has its share
    ],
)
def test_a_kernel_that_is_busy_without_an_end(monkeypatch, cycle, dies):
    """A program may be busy for ever; the kernel may not."""
    monkeypatch.setattr(of_machine, "MAX_TURNS", 10)
    board: Any = BusyBoard(itertools.cycle(cycle))
    loop = Loop(LinuxMachine(stand_in(board)))
    with pytest.raises(MachineDiedError, match="lockup") if dies else nullcontext():
        for _ in range(100):
            loop._advance()


@pytest.mark.parametrize(
    ("running", "pauses"),
    [([1], 1), ([3, 2, 1], 3), ([2] * 9, TURNS)],  # the agent is one that runs
    ids=["nobody else", "woken workers", "a busy program"],
)
def test_all_have_their_turns_before_the_kernel_is_settled(running, pauses):
    """The agent's own turn, in its share, does not mean that no worker can run."""
    board: Any = BusyBoard(itertools.repeat(0))
    loop = Loop(LinuxMachine(stand_in(board)), counts=[0])
    came = iter(running)

    def settle() -> None:
        board.ram = next(came).to_bytes(4, "little")

    loop.settle = settle  # type: ignore[method-assign]
    loop.can_rest = False
    loop.settle_all()
    assert len(running) - len(list(came)) == pauses


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
    loop = Loop(LinuxMachine(stand_in(board)))
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
