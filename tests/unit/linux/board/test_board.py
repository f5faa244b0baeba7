# SPDX-License-Identifier: GPL-2.0-or-later
"""Processors of a board without a kernel: each has registers of its own, and a turn."""

import mmap

import pytest

from kpfs.base import abi
from kpfs.linux.arch import x86
from kpfs.linux.board.board import Board
from kpfs.linux.board.stops import reason

RAM = 1 << 20
AT = 0x8000  # where a processor starts
END = "fa f4"  # cli; hlt: for good
# what is printed is '0' and the processor's number, by CPUID
NUMBER = "66b801000000 0fa2 66c1eb18 88d8 0430 baf803 ee"


@pytest.fixture
def board():
    made = Board(mmap.mmap(-1, RAM), mmap.mmap(-1, abi.REGION_SIZE), cpus=3)
    for number in range(3):
        made.set_cpu(number, state=abi.CPU_OFF)
    yield made
    made.close()


def start(board, number, code, at=AT):
    """Start a processor, as a start-up interrupt does."""
    raw = bytes.fromhex(code)
    board.ram[at : at + len(raw)] = raw
    board.set_cpu(number, start=at, state=abi.CPU_RUNS)


def printed(board):
    return board.console(0)[0].decode()


def test_registers_are_each_ones_own(board):
    for number in range(3):
        board.select(number)
        for name in ("rax", "r15", "rip"):
            board.write_reg(x86.GENERAL[name], 0x1000 + number)
        x86.write_msr(board, x86.MSRS["kernel_gs_base"], 0x2000 + number)
        x86.write_table(board, "idtr", (0, 0x3000 + number, 0xFF, 0))
        board.write_reg(x86.FPU["fpcw"], 0x37F - number)
    for number in (1, 0, 2):
        board.select(number)
        assert board.get(abi.Board.current) == number
        for name in ("rax", "r15", "rip"):
            assert board.read_reg(x86.GENERAL[name]) == 0x1000 + number
        assert x86.read_msr(board, x86.MSRS["kernel_gs_base"]) == 0x2000 + number
        assert x86.read_table(board, "idtr")[1] == 0x3000 + number
        assert board.read_reg(x86.FPU["fpcw"]) == 0x37F - number


def test_one_that_is_started_begins_in_real_mode_and_knows_its_number(board):
    for number in (1, 2):
        start(board, number, NUMBER + END)
    assert board.run() == abi.STOP_HALTED
    assert sorted(printed(board)) == ["1", "2"]


def test_it_stops_at_the_begin_of_a_call_and_goes_on_there(board):
    start(board, 1, f"eb 00 {NUMBER} {END}")  # jmp to the next instruction
    board.set_calls([(AT + 2, abi.NEVER)])
    assert board.run() == abi.STOP_CALL
    assert board.get(abi.Board.asked_at) == AT + 2
    assert printed(board) == ""
    assert board.run() == abi.STOP_HALTED
    assert printed(board) == "1"


def test_it_does_not_stop_at_what_is_no_call_any_more(board):
    start(board, 1, f"eb 00 {NUMBER} {END}")
    board.set_calls([(AT + 2, abi.NEVER)])
    board.set_calls([])
    assert board.run() == abi.STOP_HALTED


def test_both_have_turns(board):
    """Each waits until the other has written a word, and neither gives way."""
    mine, other = (
        "c606009001",
        "803e019001 75f9",
    )  # mov [0x9000], 1; cmp [0x9001], 1; jne
    start(board, 0, f"{mine} {other} {NUMBER} {END}")
    mine, other = "c606019001", "803e009001 75f9"
    start(board, 1, f"{mine} {other} {NUMBER} {END}", at=0xA000)
    assert board.run() == abi.STOP_HALTED
    assert sorted(printed(board)) == ["0", "1"]
    assert board.get(abi.Board.turns) >= 2


def test_time_goes_on_to_the_first_timer_when_all_have_halted(board):
    for number, due in ((0, 5_000_000), (1, 3_000_000)):
        start(board, number, f"fb f4 {NUMBER}", at=AT + 0x1000 * number)  # sti; hlt
        board.set_cpu(number, timer=due)
    # without a gate for it, the interrupt is the end
    assert board.run() == abi.STOP_FAULT
    assert board.get(abi.Board.current) == 1
    assert board.get(abi.Board.now) == 3_000_000
    assert printed(board) == ""


def test_a_lockup_names_the_processor(board):
    board.select(2)
    assert reason(board, abi.STOP_LOCKUP).startswith("hard lockup on CPU 2: ")
