# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels that do not come up; e2e/test_kernel.py has those that do."""

import itertools
import mmap
from typing import Any

import pytest

from kpfs.base import abi
from kpfs.linux.errors import UnfitError
from kpfs.linux.make import boot
from tests.there import stand_in

FORMAT = b"\x01\x30Kernel panic - not syncing: %s\n\0"
LOGGED = b"Kernel panic - not syncing: VFS: Unable to mount root fs\0---[ end"


class Board:
    """A board whose kernel never comes to its agent."""

    def __init__(self, memory: bytes, blocks: int, ns: int) -> None:
        self.ram = mmap.mmap(-1, 1 << 20)
        self.ram[4096 : 4096 + len(memory)] = memory
        self.turn = itertools.count(1)
        self.blocks, self.now = 0, 0
        self.each = blocks, ns

    def listen(self, _size: int) -> None:
        pass

    def console(self, _since: int) -> tuple[bytes, int]:
        return b"", 0

    def get(self, what: int) -> int:
        assert what == abi.Board.now
        return self.now

    def run(self) -> int:
        turns = next(self.turn)
        self.blocks, self.now = turns * self.each[0], turns * self.each[1]
        return abi.STOP_TURN


@pytest.mark.parametrize(
    ("memory", "why"),
    [
        (FORMAT + LOGGED, "does not come up: Kernel panic - not syncing: VFS: Unable"),
        (FORMAT, r"does not come up \(--verbose"),  # the code that would say it
    ],
)
def test_a_panic_is_found_in_the_log(memory, why):
    board: Any = Board(memory, 1 << 27, 0)
    with pytest.raises(UnfitError, match=why):
        boot._run(stand_in(board), lambda _board: None)
    assert (board.blocks > boot.MAX_BLOCKS) == (memory == FORMAT)


def test_a_kernel_that_waits_for_what_does_not_come():
    board: Any = Board(b"", 1, 1 << 33)
    with pytest.raises(UnfitError, match="does not come up"):
        boot._run(stand_in(board), lambda _board: None)
