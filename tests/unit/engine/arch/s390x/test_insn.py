# SPDX-License-Identifier: GPL-2.0-or-later
"""Listings of s390x's text."""

from functools import partial

import pytest

from kpfs.engine.arch.s390x.insn import Disassembler, branch_target
from tests.unit.engine.arch.text_tables import compared

START = 0x3FFE0100000
NOP, RET, BREAK, STMG = "c00400000000", "07fe", "0002", "eb6ff0480024"


listing = partial(compared, Disassembler().compared, START)


def test_text_as_it_was():
    assert listing(STMG + RET, STMG + RET) == [
        "  000003ffe0100000  eb 6f f0 48 00 24 stmg %r6, %r15, 0x48(%r15)",
        "  000003ffe0100006  07 fe             br %r14",
    ]


@pytest.mark.parametrize(
    ("patch", "was", "note"),
    [
        (BREAK + STMG[4:], STMG, "breakpoint, was: stmg %r6, %r15, 0x48(%r15)"),
        ("c0f400000010", NOP, "jump, was: brcl 0, 0x3ffe0100000"),
        (RET, "0707", "patched, was: bcr 0, %r7"),
    ],
)
def test_text_that_was_patched(patch, was, note):
    (line,) = listing(patch, was)
    assert line.endswith(f" # {note}")


@pytest.mark.parametrize(
    ("code", "target"),
    [
        ("c0e500000008", START + 16),  # brasl
        ("a7f4fffe", START - 4),  # j
        ("c01000000008", None),  # larl
        (RET, None),
    ],
)
def test_targets_of_branches(code, target):
    assert branch_target(bytes.fromhex(code), START) == target
