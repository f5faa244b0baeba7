# SPDX-License-Identifier: GPL-2.0-or-later
"""Listings of ppc64's text."""

from functools import partial

import pytest

from kpfs.engine.arch.ppc64.insn import branch_target, compared_listing
from tests.unit.engine.arch.text_tables import compared

START = 0xC000000000100000
NOP, BLR, TRAP, MFLR = "00000060", "2000804e", "0800e07f", "a602087c"


listing = partial(compared, compared_listing, START)


def test_text_as_it_was():
    assert listing(MFLR + BLR, MFLR + BLR) == [
        "  c000000000100000  a6 02 08 7c mflr r0",
        "  c000000000100004  20 00 80 4e blr",
    ]


@pytest.mark.parametrize(
    ("patch", "was", "note"),
    [
        (TRAP, MFLR, "breakpoint, was: mflr r0"),
        ("10000048", NOP, "jump, was: nop"),
        ("11000048", NOP, "call, was: nop"),
        (BLR, NOP, "patched, was: nop"),
    ],
)
def test_text_that_was_patched(patch, was, note):
    (line,) = listing(patch, was)
    assert line.endswith(f" # {note}")


@pytest.mark.parametrize(
    ("word", "target"),
    [
        (0x48000010, START + 16),
        (0x4BFFFFFD, START - 4),  # bl
        (0x48000012, None),  # ba
        (0x4E800020, None),
    ],
)
def test_targets_of_branches(word, target):
    assert branch_target(word, START) == target
