# SPDX-License-Identifier: GPL-2.0-or-later
"""Processors of one board go on as those of another."""

import json
import mmap

import pytest

from kpfs.base import abi
from kpfs.emulator import x86_registers
from kpfs.linux.arch import x86
from kpfs.linux.board.board import Board
from kpfs.linux.store import processor
from kpfs.linux.store.processor import Processor

CPUS = 2


@pytest.fixture
def make():
    made = []

    def one():
        ram, region = mmap.mmap(-1, 1 << 20), mmap.mmap(-1, abi.REGION_SIZE)
        made.append(Board(ram, region, cpus=CPUS))
        return made[-1]

    yield one
    for board in made:
        board.close()


def test_there_and_back(make):
    board = make()
    for number in range(CPUS):
        board.select(number)
        board.write_reg(x86_registers.GENERAL["rbx"], 0x100 + number)
        x86_registers.write_msr(board, x86_registers.MSRS["gs_base"], 0x200 + number)
        x86.write_table(board, "tr", (0x40, 0x300 + number, 0x67, 0x8B00))
        state = (abi.CPU_RUNS, abi.CPU_HALTED)[number]
        board.set_cpu(number, state=state, timer=400 + number, cr2=500 + number)
        board.words[board.cpu_word(number, board.arch.cpu_field("pending"))] = (
            1 << number
        )
    saved = [processor.save(board, number) for number in range(CPUS)]
    rows = json.loads(json.dumps(saved))
    other = make()
    for number, row in enumerate(rows):
        processor.load(other, number, Processor(*row))
    assert [processor.save(other, number) for number in range(CPUS)] == saved
    assert [one.registers["rbx"] for one in saved] == [0x100, 0x101]
    assert [one.words["timer"] for one in saved] == [400, 401]


@pytest.mark.parametrize("mode", [abi.MODE_KERNEL, abi.MODE_USER])
def test_the_mode_that_it_is_in(make, mode):
    board, other = make(), make()
    board.set_mode(mode)
    saved = processor.save(board, 0)
    assert saved.mode == mode
    processor.load(other, 1, saved)
    assert processor.save(other, 1) == saved
