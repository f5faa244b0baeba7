# SPDX-License-Identifier: GPL-2.0-or-later
"""Judging code of s390x, without a kernel.

tests/e2e/test_kernel_arches.py asks a kernel.
"""

from functools import partial

import pytest

from tests.unit.engine.arch.text_tables import Tables

AT = 0x3FFE0100000
NOP, RET, STMG = "c00400000000", "07fe", "eb6ff0480024"
tables = partial(Tables, "s390x", AT)


@pytest.mark.parametrize("code", [STMG, RET, "a7f4fffe", "c0e500000008", "0a01"])
def test_instructions_that_can_be_probed(code):
    assert "stepped" in tables(code).way()


@pytest.mark.parametrize(
    "code",
    [
        "0000",
        "44100000",
        "83230e90",
        "ad03f0a0",
        "c61000000000",
        "b98d0010",
        "e5600000ff00",
    ],
)
def test_instructions_that_cannot(code):
    assert tables(code).refused().endswith("cannot be probed")


def test_instructions_begin_where_those_before_end():
    code = tables(STMG + RET + RET)
    for offset in (0, 6, 8):
        code.accept(offset)
    for offset in (1, 2, 4, 7):
        assert code.refused(offset) == "no instruction begins there"


def test_the_place_of_ftraces_call():
    code = tables("0000" + NOP, site=AT)
    code.judge.follow("6.12.0", "CONFIG_KPROBES_ON_FTRACE=y\n")
    code.accept(0)
    code.judge.follow("6.12.0", "")
    assert code.refused(0).endswith("cannot be probed")


def test_a_listing_ends_with_a_whole_instruction():
    rows = tables(STMG + RET).judge.listing(AT, 1, hex)
    assert [(row[0], row[1].hex()) for row in rows] == [(AT, STMG)]
