# SPDX-License-Identifier: GPL-2.0-or-later
"""Listings of i386's text."""

from functools import partial

import pytest

from kpfs.engine.arch.i386.insn import branch_target, compared_listing
from tests.unit.engine.arch.text_tables import compared

START = 0xC12E0000
INC, MOV = "40", "8b442404"  # which are prefixes, or use RSP, on x86-64


listing = partial(compared, compared_listing, START)


def test_text_as_it_was():
    assert listing(INC + MOV, INC + MOV) == [
        "  00000000c12e0000  40                                inc eax",
        "  00000000c12e0001  8b 44 24 04                       "
        "mov eax, dword ptr [esp + 4]",
    ]


@pytest.mark.parametrize(
    ("patch", "was", "note"),
    [
        ("cc", "55", "breakpoint, was: push ebp"),
        (
            "e90b000000",
            "5589e55756",
            "jump, was: push ebp; mov ebp, esp; push edi; push esi",
        ),
        ("e80b000000", "3e8d742600", "call, was: lea esi, ds:[esi]"),
        ("0f", "90", "patched, was: nop"),
    ],
)
def test_text_that_was_patched(patch, was, note):
    (line,) = listing(patch, was)
    assert line.endswith(f" # {note}")


@pytest.mark.parametrize(
    ("code", "target"),
    [
        ("e80b000000", START + 16),
        ("0f84faffffff", START),
        ("75fe", START),
        ("90", None),
    ],
)
def test_targets_of_branches(code, target):
    assert branch_target(bytes.fromhex(code), START) == target
