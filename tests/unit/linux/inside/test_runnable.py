# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests kpfs.linux.inside.runnable, and what kpfs.linux.inside.loop makes of it."""

import struct
from types import SimpleNamespace

import pytest

from kpfs.base import abi
from kpfs.linux.arch.arches import X86_64
from kpfs.linux.inside import runnable
from kpfs.linux.inside.loop import BEHIND_NS, QUIET_BLOCKS, Loop
from tests.there import stand_in

COUNTS = [0, 4]  # where those of two processors are
DUE = 7_000_000


class Board:
    """A board of two processors with so many runnable tasks."""

    arch = X86_64

    def __init__(self, *running):
        self.ram = struct.pack(f"<{len(running)}I", *running)
        self.blocks = QUIET_BLOCKS - 1
        self.now = 0

    def set(self, now):
        self.now = now


def loop_over(board, counts):
    """A loop whose machine has just come to its agent's pause, and has a timer."""
    machine = SimpleNamespace(
        board=board,
        quiet=True,
        step=lambda: abi.STOP_PAUSE,
        current=lambda: 0,
        others_run=lambda: None,
        host_now=lambda: 0,
        now=lambda: board.now,
        deadline=lambda: DUE,
        wait_from_here=lambda lead: None,
    )
    return Loop(stand_in(machine), counts)


@pytest.mark.parametrize(
    ("running", "others"), [((1, 0), False), ((2, 0), True), ((1, 1), True)]
)
def test_tasks_that_can_run_besides_the_agent(running, others):
    assert runnable.others(stand_in(Board(*running)), COUNTS) is others


@pytest.mark.parametrize("counts", [COUNTS, []])
def test_time_passes_while_nobody_can_run(counts):
    board = Board(1, 0)
    loop_over(board, counts).step()
    assert board.now == DUE


def test_no_time_passes_for_the_agent_while_others_wait_for_their_turn():
    board = Board(2, 0)
    loop_over(board, COUNTS).step()
    assert board.now == 0


@pytest.mark.parametrize(
    ("running", "cpu", "follows"),
    [
        ((2,), 0, False),
        ((2,), -1, True),
        ((1,), 0, True),
        ((1, 2), 0, True),
        ((1, 2), 1, False),
    ],
)
def test_the_agent_pays_for_no_time_while_others_wait(running, cpu, follows):
    """At SCHED_IDLE it would not run again for 341 times as long."""
    board, host = Board(*running), BEHIND_NS + 1
    machine = SimpleNamespace(
        board=board,
        quiet=False,
        others_run=lambda: None,
        host_now=lambda: host,
        now=lambda: board.now,
        deadline=lambda: abi.NEVER,
    )
    Loop(stand_in(machine), COUNTS[: len(running)], lambda: cpu).follow_host()
    assert board.now == host * follows
