# SPDX-License-Identifier: GPL-2.0-or-later
"""Listings of ppc64's text."""

from functools import partial

import pytest

from kpfs.engine.arch.ppc64.insn import (
    Disassembler,
    branch_target,
    named_addresses,
)
from tests.unit.engine.arch.text_tables import compared

START = 0xC000000000100000
NOP, BLR, TRAP, MFLR = "00000060", "2000804e", "0800e07f", "a602087c"


listing = partial(compared, Disassembler().compared, START)


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


def test_addresses_that_instructions_name():
    code = bytes.fromhex(
        "ea004c3c"  # addis r2, r12, 234
        "90a74238"  # addi r2, r2, -22640
        "6801223d"  # addis r9, r2, 360
        "78fbe37f"  # mr r3, r31
        "38dce9eb"  # ld r31, -9160(r9)
        "0100293d"  # addis r9, r9, 1
        "708b8938"  # addi r4, r9, -29840
        "0000843c"  # addis r4, r4, 0
        "01000048"  # bl
        "0400a4e8"  # ld r5, 4(r4), whose r4 the call has changed
        "0800a238"  # addi r5, r2, 8, which survives it
        "000065f8"  # std r3, 0(r5)
        "10006038"  # li r3, 16
    )
    toc = START + (234 << 16) - 22640
    found = list(named_addresses(code, START))
    assert found == [
        (toc + (360 << 16) - 9160, True),
        (toc + (361 << 16) - 29840, False),
        (toc + 8, False),
        (toc + 8, True),
    ]
