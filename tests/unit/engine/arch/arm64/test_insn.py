# SPDX-License-Identifier: GPL-2.0-or-later
"""Listings of arm64's text."""

from functools import partial

import pytest

from kpfs.engine.arch.arm64.insn import Disassembler, branch_target
from tests.unit.engine.arch.text_tables import compared

START = 0xFFFF800080000000
NOP, RET = "1f2003d5", "c0035fd6"
BRK, BACK, CALL = "800020d4", "ffffff17", "02000094"  # brk #4; b .-4; bl .+8


listing = partial(compared, Disassembler().compared, START)


def test_text_as_it_was():
    assert listing(NOP + RET, NOP + RET) == [
        "  ffff800080000000  1f 20 03 d5 nop",
        "  ffff800080000004  c0 03 5f d6 ret",
    ]


@pytest.mark.parametrize(
    ("patch", "note"),
    [(BRK, "breakpoint"), (CALL, "call"), (BACK, "jump"), (RET, "patched")],
)
def test_text_that_was_patched(patch, note):
    (line,) = listing(patch, NOP)
    assert line.endswith(f" # {note}, was: nop")


def test_targets_of_branches_have_names():
    (line,) = listing(CALL, CALL)
    assert line.endswith("bl #0xffff800080000008 <fffff800080000008>")
    assert branch_target(0x17FFFFFF, START) == START - 4
    assert branch_target(0xD503201F, START) is None


def test_what_is_no_instruction():
    assert listing("00000000", "00000000")[0].split()[-1] in ("#0", "0x00000000")
