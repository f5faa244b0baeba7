# SPDX-License-Identifier: GPL-2.0-or-later
"""Judging code of mips64, without a kernel."""

from functools import partial

import pytest

from tests.unit.engine.arch.text_tables import Tables

AT = 0xFFFF_FFFF_8011_0000
NOP, MOVE, JR, BEQ = "00000000", "25108000", "0800e003", "02008010"
tables = partial(Tables, "mips64", AT)


@pytest.mark.parametrize(
    ("code", "way"),
    [(NOP, "stepped"), (MOVE, "stepped"), (JR, "simulated"), (BEQ, "simulated")],
)
def test_instructions_that_can_be_probed(code, way):
    assert way in tables(code).way()


@pytest.mark.parametrize("code", ["000082c0", "000082d0", "000082e0", "000082f0"])
def test_instructions_that_cannot(code):
    assert tables(code).refused().endswith("cannot be probed")


def test_what_is_behind_a_branch():
    code = tables(BEQ + MOVE + MOVE)
    code.accept(0)
    assert "delay slot" in code.refused(4)
    code.accept(8)
    # the kernel asks of no address whether an instruction begins there
    code.accept(9)
    assert "spoils two" in code.judge.check_jump(AT + 9).why_not


def test_the_place_of_a_call():
    assert "ftrace puts its calls there" in tables(NOP, site=AT).refused()
