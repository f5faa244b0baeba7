# SPDX-License-Identifier: GPL-2.0-or-later
"""Listings of mips64's text."""

from functools import partial

import pytest

from kpfs.engine.arch.mips64.insn import Disassembler, branch_target, has_delay_slot
from tests.unit.engine.arch.text_tables import compared

START = 0xFFFF_FFFF_8011_0000
NOP, JR, BREAK, MOVE = "00000000", "0800e003", "0d000500", "25108000"
listing = partial(compared, Disassembler().compared, START)


def test_text_as_it_was():
    assert listing(JR + NOP, JR + NOP) == [
        "  ffffffff80110000  08 00 e0 03 jr $ra",
        "  ffffffff80110004  00 00 00 00 nop",
    ]


@pytest.mark.parametrize(
    ("patch", "was", "note"),
    [
        (BREAK, MOVE, "breakpoint, was: move $v0, $a0"),
        ("04000408", NOP, "jump, was: nop"),
        ("0400040c", NOP, "call, was: nop"),
        (JR, NOP, "patched, was: nop"),
        ("3f000070", NOP, "patched, was: nop"),  # no break, though it ends so
    ],
)
def test_text_that_was_patched(patch, was, note):
    (line,) = listing(patch, was)
    assert line.endswith(f" # {note}")


@pytest.mark.parametrize(
    ("word", "target"),
    [
        (0x0C04_4004, START + 16),  # jal
        (0x1000_FFFF, START),  # b
        (0x0411_0001, START + 8),  # bal
        (0x4501_0002, START + 12),  # bc1t
        (0x03E0_0008, None),  # jr
        (0x0419_0001, None),  # teqi's kind
        (0x4600_0000, None),  # add.s
        (0x2402_0001, None),  # li
    ],
)
def test_targets_of_branches(word, target):
    assert branch_target(word, START) == target


@pytest.mark.parametrize(
    ("word", "has"),
    [
        (0x03E0_0008, True),  # jr
        (0x0080_F809, True),  # jalr
        (0x0411_0001, True),  # bal
        (0x1480_0001, True),  # bne
        (0x5480_0001, True),  # bnel
        (0x4600_0000, True),  # add.s, as the kernel takes it
        (0x0000_000D, False),  # break
        (0x0408_0001, False),  # tgei
        (0xDC82_0000, False),  # ld
    ],
)
def test_delay_slots(word, has):
    assert has_delay_slot(word) is has
