# SPDX-License-Identifier: GPL-2.0-or-later
"""Time that passes quickly while a kernel spins.  Tests kpfs.linux.search.spin."""

from types import SimpleNamespace

import pytest

from kpfs.base import abi
from kpfs.linux.running.machine import MachineDiedError
from kpfs.linux.search.spin import Spinning

LOCK, OTHER = 0x1000, 0x2000
CODE = {LOCK: b"\x90\xf3\x90\xeb\xfc", OTHER: b"\x90\x90\xc3"}


class Kernel:
    """A kernel of two functions, the first of which waits by a loop."""

    def __init__(self):
        self.at, self.early, self.skipped, self.dead = LOCK, False, 0, ""
        arch = SimpleNamespace(counter=16, pauses=(b"\xf3\x90",))
        self.board = SimpleNamespace(blocks=0, arch=arch, read_reg=lambda _: self.at)
        self.machine = self.symbols = self.memory = self
        self.spinning = Spinning(self, 30_000_000_000)  # type: ignore[arg-type]

    def is_early(self):
        return self.early

    def skip(self, ns):
        self.skipped += ns

    def symbol_at(self, at):
        return SimpleNamespace(addr=at, size=len(CODE[at]))

    def read(self, at, size):
        return CODE[at][:size]

    def turn(self, at):
        self.at = at
        self.board.blocks += abi.TURN_BLOCKS
        self.spinning.end_turn()


def test_time_passes_while_nothing_but_a_loop_runs():
    kernel = Kernel()
    for number in range(20):
        kernel.turn(OTHER if number == 5 else LOCK)  # an interrupt
    assert kernel.skipped
    kernel = Kernel()
    for _ in range(40):
        kernel.turn(OTHER)
    assert not kernel.skipped


def test_what_runs_besides_counts():
    kernel = Kernel()
    for number in range(40):
        kernel.turn(LOCK if number % 4 else OTHER)
        if not number % 4:
            kernel.turn(OTHER)
    assert not kernel.skipped


def test_a_turn_that_the_host_has_ended_does_not_count():
    kernel = Kernel()
    kernel.early = True
    for _ in range(40):
        kernel.turn(LOCK)
    assert not kernel.skipped


def test_a_kernel_that_spins_for_all_its_time_is_ended():
    kernel = Kernel()
    while kernel.skipped <= 30_000_000_000:
        kernel.turn(LOCK)
    kernel.turn(LOCK)
    with pytest.raises(MachineDiedError, match="nothing but spin"):
        kernel.turn(LOCK)
