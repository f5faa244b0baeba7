# SPDX-License-Identifier: GPL-2.0-or-later
"""A board of riscv64 without a kernel: registers, clock, interrupts, firmware, code."""

import pytest

from kpfs.base import abi
from kpfs.emulator import libunicorn
from kpfs.emulator.libunicorn import EmulatorError
from kpfs.linux.arch import riscv64
from kpfs.linux.arch.arches import RISCV64
from kpfs.linux.store import processor
from tests.unit.linux.arch.boards import AT, PAUSE, boards, go_on_elsewhere, put

HANDLER = AT + 0x2000
NOP, ECALL, SRET = 0x13, 0x73, 0x1020_0073
CSRW_STVEC_T2, CSRS_SIE_A0, CSRS_SSTATUS_A1 = 0x1053_9073, 0x1045_2073, 0x1005_A073
TIMER_ENABLED, INTERRUPTS_ON = 1 << 5, 2
BASE, TIME, HSM = 0x10, 0x5449_4D45, 0x48_534D


@pytest.fixture
def make():
    with boards(RISCV64) as make:
        yield make


def run(board, *words, at=AT, **registers):
    """Run instructions, then go to where the agent would wait."""
    end = put(board, at, *words)
    put(board, end, riscv64._jump(PAUSE - end))
    put(board, PAUSE, NOP)
    board.set(pause=PAUSE)
    for name, value in registers.items():
        board.write_reg(riscv64.X[name], value)
    board.write_reg(riscv64.PC, at)
    return board.run()


def reg(board, number):
    return board.read_reg(riscv64.X[f"x{number}"])


def test_processors_go_on_on_another_board(make):
    board = make(cpus=2)
    for number in range(2):
        board.select(number)
        values = processor.save(board, number)
        values.registers.update(x19=0x100 + number, f3=0x200 + number, fp_status=5)
        processor.load(board, number, values)
        board.set_cpu(number, enabled=1 << 5, raised=2)
    saved = go_on_elsewhere(RISCV64, make, board)
    assert [one.registers["x19"] for one in saved] == [0x100, 0x101]
    assert [one.registers["f3"] for one in saved] == [0x200, 0x201]


@pytest.mark.parametrize(
    "change", [{"registers": {}}, {"tables": {"f": [1]}}, {"mode": 3}, {"priv": 3}]
)
def test_a_state_that_is_not_sound(make, change):
    saved = processor.save(make(), 0)
    if "priv" in change:
        change = {"registers": saved.registers | change}
    assert not processor.is_sound(RISCV64, saved._replace(**change))


def test_a_libunicorn_that_is_not_known(monkeypatch, make):
    monkeypatch.setattr(libunicorn, "state_of", libunicorn.processor_of)
    with pytest.raises(EmulatorError, match=r"2\.1\.4 is wanted"):
        make()


def test_the_clock_is_the_boards(make):
    board = make()
    board.set(now=5_000_000)
    # rdtime a0; rdcycle a1
    assert run(board, 0xC010_2573, 0xC000_25F3) == abi.STOP_PAUSE
    assert 5_000_000 < reg(board, 10) < reg(board, 11) < 5_001_000


def test_the_timer_interrupts_when_it_was_set_to(make):
    board = make()
    # the handler: csrr s2, scause; li a0, -1; ecall, which sets the timer anew; sret
    put(board, HANDLER, 0x1420_2973, 0xFFF0_0513, ECALL, SRET)
    timer = {"x10": 1000, "x17": TIME, "x16": 0, "x7": HANDLER}
    run(board, CSRW_STVEC_T2, ECALL, **timer)
    assert board.get_cpu(0, abi.Cpu.timer) == 1000
    bits = {"x10": TIMER_ENABLED, "x11": INTERRUPTS_ON}
    board.set(now=2000)
    run(board, CSRS_SIE_A0, CSRS_SSTATUS_A1, at=AT + 0x40, **bits)
    assert run(board, NOP, at=AT + 0x80) == abi.STOP_PAUSE
    assert reg(board, 18) == 1 << 63 | 5
    assert board.get_cpu(0, abi.Cpu.timer) == abi.NEVER


@pytest.mark.parametrize(
    ("extension", "function", "argument", "answer"),
    [
        (BASE, 0, 0, (0, 2 << 24)),  # version 2.0
        (BASE, 3, TIME, (0, 1)),
        (BASE, 3, 0x1234, (0, 0)),
        (HSM, 2, 0, (0, 0)),  # it runs
        (HSM, 2, 7, (-3, 0)),
        (0x1234, 0, 0, (-2, 0)),
    ],
)
def test_the_firmware_answers(make, extension, function, argument, answer):
    board = make()
    registers = {"x17": extension, "x16": function, "x10": argument}
    assert run(board, ECALL, **registers) == abi.STOP_PAUSE
    assert (reg(board, 10), reg(board, 11)) == (answer[0] % (1 << 64), answer[1])


def test_code_that_has_changed_runs_as_it_is(make):
    """Whoever stores to it: no fence.i is needed here."""
    board = make()
    code = AT + 0x100
    put(board, code, NOP, 0x8067)  # ret
    for value in (1, 2):
        insn = 0x513 | value << 20  # li a0, value
        # sw t1, (t0); jalr t0
        assert run(board, 0x62_A023, 0x2_80E7, x5=code, x6=insn) == abi.STOP_PAUSE
        assert reg(board, 10) == value


def test_limits_of_older_kernels():
    assert "record none" in RISCV64.limits("CONFIG_KPROBES=y\n")
    assert RISCV64.limits("CONFIG_ARCH_HAVE_NMI_SAFE_CMPXCHG=y\n") == ""
