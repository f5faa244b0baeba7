# SPDX-License-Identifier: GPL-2.0-or-later
"""Listings of riscv64's text."""

from functools import partial

import pytest

from kpfs.engine.arch.riscv64.insn import Disassembler, branch_distance
from tests.unit.engine.arch.text_tables import compared

START = 0xFFFFFFFF80000000
NOP, C_NOP, RET = "13000000", "0100", "8280"
EBREAK, C_EBREAK, AUIPC = "73001000", "0290", "97020000"


listing = partial(compared, Disassembler().compared, START)


def test_text_as_it_was():
    assert listing(NOP + RET, NOP + RET) == [
        "  ffffffff80000000  13 00 00 00 nop",
        "  ffffffff80000004  82 80       c.jr ra",
    ]


@pytest.mark.parametrize(
    ("patch", "was", "note"),
    [
        (EBREAK, NOP, "breakpoint, was: nop"),
        (C_EBREAK, C_NOP, "breakpoint, was: c.nop"),
        (AUIPC, NOP, "call, was: nop"),
        (RET, C_NOP, "patched, was: c.nop"),
    ],
)
def test_text_that_was_patched(patch, was, note):
    (line,) = listing(patch, was)
    assert line.endswith(f" # {note}")


@pytest.mark.parametrize(
    ("code", "distance"),
    [
        ("6ff0dfff", -4),  # j .-4
        ("ef000001", 16),  # jal .+16
        ("6308a500", 16),  # beq a0, a0, .+16
        ("e30ea5fe", -4),
        ("fdbf", -2),  # c.j .-2
        ("01a8", 16),
        ("01c9", 16),  # c.beqz a0, .+16
        ("7dfd", -2),  # c.bnez a0, .-2
        (NOP, None),
        (RET, None),
    ],
)
def test_targets_of_branches(code, distance):
    assert branch_distance(bytes.fromhex(code)) == distance


def test_a_target_has_its_name():
    (line,) = listing("ef000001", "ef000001")
    assert line.endswith(" <fffffffff80000010>")


def test_what_is_no_instruction():
    assert ".insn 0x0000ffff" in listing("ffff0000", "ffff0000")[0]
