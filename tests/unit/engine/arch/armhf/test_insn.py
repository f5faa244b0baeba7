# SPDX-License-Identifier: GPL-2.0-or-later
"""Listings of armhf's text."""

from functools import partial

import pytest

from kpfs.engine.arch.armhf.insn import (
    Disassembler,
    branch_target,
    named_addresses,
)
from tests.unit.engine.arch.text_tables import compared

START = 0xC0300000
PUSH, NOP, BREAK = "10402de9", "00f020e3", "f801f0e7"


listing = partial(compared, Disassembler().compared, START)


def test_text_as_it_was():
    assert listing(PUSH + NOP, PUSH + NOP) == [
        "  00000000c0300000  10 40 2d e9 push {r4, lr}",
        "  00000000c0300004  00 f0 20 e3 nop",
    ]


@pytest.mark.parametrize(
    ("patch", "was", "note"),
    [
        (BREAK, PUSH, "breakpoint, was: push {r4, lr}"),
        ("f801f007", PUSH, "breakpoint, was: push {r4, lr}"),  # under a condition
        ("020000ea", PUSH, "jump, was: push {r4, lr}"),
        ("020000eb", NOP, "call, was: nop"),
        (PUSH, NOP, "patched, was: nop"),
    ],
)
def test_text_that_was_patched(patch, was, note):
    (line,) = listing(patch, was)
    assert line.endswith(f" # {note}")


@pytest.mark.parametrize(
    ("word", "target"),
    [
        (0xEB000002, START + 16),  # bl
        (0x0AFFFFFE, START),  # beq
        (0xFA000000, None),  # blx, to Thumb
        (0xE92D4010, None),
    ],
)
def test_targets_of_branches(word, target):
    assert branch_target(word, START) == target


def test_addresses_that_instructions_name():
    code = bytes.fromhex(
        "a81606e3"  # movw r1, #0x66a8
        "00f020e3"  # nop
        "31114ce3"  # movt r1, #0xc131
        "102091e5"  # ldr r2, [r1, #16]
        "042012e5"  # ldr r2, [r2, #-4], whose r2 is not known
        "00309fe5"  # ldr r3, [pc]
        "1eff2fe1"  # bx lr
        "5c2c6ac1"
    )
    found = list(named_addresses(code, START))
    assert found == [(0xC13166A8, False), (0xC13166B8, True), (0xC16A2C5C, False)]
