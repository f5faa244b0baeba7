# SPDX-License-Identifier: GPL-2.0-or-later
"""Judging code of riscv64, without a kernel.

tests/integration/linux/test_explain.py asks a kernel about the same.
"""

from functools import partial

import pytest

from tests.unit.engine.arch.text_tables import Tables

AT = 0xFFFF_FFFF_8001_0000
NOP, C_NOP, C_RET = "13000000", "0100", "8280"
tables = partial(Tables, "riscv64", AT)


@pytest.mark.parametrize(
    ("code", "way"),
    [
        (NOP, "stepped"),
        (C_NOP, "stepped"),
        ("2f20a500", "stepped"),  # amoadd.w
        ("0525", "stepped"),  # c.addiw a0, 1
        ("ef000001", "simulated"),  # jal
        ("e7800200", "simulated"),  # jalr
        ("97020000", "simulated"),  # auipc
        ("6308a500", "simulated"),  # beq
        ("01a8", "simulated"),  # c.j
        (C_RET, "simulated"),
        ("0295", "simulated"),  # c.jalr
        ("01c9", "simulated"),  # c.beqz
        ("7dfd", "simulated"),  # c.bnez
    ],
)
def test_instructions_that_can_be_probed(code, way):
    assert way in tables(code).way()


@pytest.mark.parametrize(
    "code",
    [
        "73000000",  # ecall
        "f3272010",  # csrr
        "0f00f00f",  # fence
        "0f100000",  # fence.i
        "0290",  # c.ebreak
    ],
)
def test_instructions_that_cannot(code):
    assert tables(code).refused().endswith("cannot be probed")


def test_instructions_begin_where_those_before_end():
    code = tables(C_NOP + NOP + C_NOP)
    for offset in (0, 2, 6):
        code.accept(offset)
    for offset in (1, 3, 4):
        assert code.refused(offset) == "no instruction begins there"


def test_the_place_of_a_call():
    assert "ftrace puts its calls there" in tables(NOP, site=AT).refused()


def test_what_an_older_kernel_does_with_hits():
    """A kernel without that option drops records of events by breakpoints."""
    code = tables(NOP)
    code.judge.follow("6.12", "CONFIG_KPROBES=y\n")
    assert "record none" in code.way()
    code.judge.follow("7.2", "CONFIG_ARCH_HAVE_NMI_SAFE_CMPXCHG=y\n")
    assert "record none" not in code.way()


def test_a_listing():
    rows = [(0, "c.nop"), (2, "nop"), (6, "c.jr ra")]
    assert tables(C_NOP + NOP + C_RET).listing(0, 8) == rows
