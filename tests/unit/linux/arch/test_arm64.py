# SPDX-License-Identifier: GPL-2.0-or-later
"""A board of arm64 without a kernel: registers, clock, timer, firmware, code."""

import pytest

from kpfs.base import abi
from kpfs.emulator import libunicorn
from kpfs.emulator.libunicorn import EmulatorError
from kpfs.linux.arch import arm64
from kpfs.linux.arch.arches import ARM64
from kpfs.linux.store import processor
from tests.unit.linux.arch.boards import AT, PAUSE, boards, go_on_elsewhere, put

X0, X1, X2 = (arm64.GENERAL[f"x{n}"] for n in range(3))
NOP = 0xD503201F


@pytest.fixture
def make():
    with boards(ARM64) as make:
        yield make


def run(board, *words):
    """Run instructions, then go to where the agent would wait."""
    end = put(board, AT, *words)
    put(board, end, 0x14000000 | (PAUSE - end) // 4)
    put(board, PAUSE, NOP)
    board.set(pause=PAUSE)
    board.write_reg(arm64.PC, AT)
    return board.run()


def test_processors_go_on_on_another_board(make):
    board = make(cpus=2)
    for number in range(2):
        board.select(number)
        board.write_reg(arm64.GENERAL["x19"], 0x100 + number)
        board.write_raw(arm64.VECTORS["q3"], bytes(range(16)))
        arm64.write_system(board, arm64.SYSTEM_REGISTERS["tpidr_el0"], 0x200 + number)
        board.set_cpu(number, timer_at=0x300 + number, enabled=1 << 27)
    saved = go_on_elsewhere(ARM64, make, board)
    assert [one.registers["x19"] for one in saved] == [0x100, 0x101]
    assert [one.registers["tpidr_el0"] for one in saved] == [0x200, 0x201]


@pytest.mark.parametrize(
    "change",
    [
        {"registers": {}},
        {"tables": {}},
        {"tables": {name: [1 << 64, 0] for name in arm64.VECTORS}},
        {"mode": 3},
    ],
)
def test_a_state_that_is_not_sound(make, change):
    saved = processor.save(make(), 0)._replace(**change)
    assert not processor.is_sound(ARM64, saved)


@pytest.mark.parametrize(
    "place",
    ["PROCESSOR_EXCEPTION"]
    + [f"ARM64_STATE_{name}" for name in ("X", "PC", "DAIF", "TTBR0", "TTBR1")]
    + [f"ARM64_STATE_{name}" for name in ("MPIDR", "SYNDROME", "TARGET")],
)
def test_a_libunicorn_whose_inside_is_not_known(monkeypatch, make, place):
    monkeypatch.setattr(abi, place, getattr(abi, place) + 8)
    with pytest.raises(EmulatorError, match=r"2\.1\.4 is wanted"):
        make()


def test_another_version_of_libunicorn(monkeypatch, make):
    monkeypatch.setattr(libunicorn, "VERSION", 0)
    with pytest.raises(EmulatorError, match=r"2\.1\.4 is wanted"):
        make()


def test_the_clock_is_the_boards(make):
    board = make()
    board.set(now=5_000_000)
    # mrs x0, cntvct_el0; mrs x1, cntvct_el0; mrs x2, cntfrq_el0
    assert run(board, 0xD53BE040, 0xD53BE041, 0xD53BE002) == abi.STOP_PAUSE
    first, second = board.read_reg(X0), board.read_reg(X1)
    assert 5_000_000 < first < second < 5_001_000
    assert board.read_reg(X2) == 1_000_000_000


def test_a_slow_host_counts_alike(make):
    """Turns end early there."""

    def counted(**words):
        board = make()
        board.set(**words)
        board.write_reg(X0, 500)
        # sub x0, x0, #1; cbnz x0, -4
        turns = 1
        why = run(board, 0xD1000400, 0xB5FFFFE0)
        while why == abi.STOP_TURN:
            why, turns = board.run(), turns + 1
        return turns, board.blocks, board.get(abi.Board.now)

    (fast, *usual), (slow, *others) = counted(), counted(turn_ticks=0)
    assert fast < slow
    assert others == usual


def test_the_timer_is_due_when_it_was_set_to(make):
    board = make()
    # msr cntv_cval_el0, x0; msr cntv_ctl_el0, x1; mrs x2, cntv_ctl_el0
    board.write_reg(X0, 1 << 40)
    board.write_reg(X1, 1)
    assert run(board, 0xD51BE340, 0xD51BE321, 0xD53BE322) == abi.STOP_PAUSE
    assert board.get_cpu(0, abi.Cpu.timer) == 1 << 40
    assert board.read_reg(X2) == 1  # not due
    board.set(now=1 << 41)
    assert run(board, 0xD53BE322) == abi.STOP_PAUSE
    assert board.read_reg(X2) == 5


def test_the_firmware_answers(make):
    board = make()
    board.write_reg(X0, 0x84000000)  # PSCI_VERSION
    assert run(board, 0xD4000003) == abi.STOP_PAUSE  # smc #0
    assert board.read_reg(X0) == 0x10001
    board.write_reg(X0, 0x84000099)
    run(board, 0xD4000003)
    assert board.read_reg(X0) == abi.NEVER  # not supported


def test_code_that_has_changed_runs_as_it_is(make):
    """The store goes by another address than what runs, as through another mapping."""
    board = make()
    code = AT + 0x100
    board.write_reg(arm64.GENERAL["x3"], code)
    call = 0xD63F0060  # blr x3
    for value in (1, 2):
        # movz x0, #value; ret
        put(board, code, 0xD2800000 | value << 5, 0xD65F03C0)
        # ic ivau, x3; isb; blr x3
        assert run(board, 0xD50B7523, 0xD5033FDF, call) == abi.STOP_PAUSE
        assert board.read_reg(X0) == value
