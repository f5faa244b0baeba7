# SPDX-License-Identifier: GPL-2.0-or-later
"""Judging code of riscv64, without a kernel.

tests/integration/linux/test_explain.py asks a kernel about the same.

Also tests kpfs.engine.arch.riscv64.checks.verdicts.
"""

from types import SimpleNamespace

import pytest

from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KAddr, Symbol
from kpfs.engine.arch.arches import JUDGES

AT = 0xFFFF_FFFF_8001_0000
NOP, C_NOP, C_RET = "13000000", "0100", "8280"


class Tables:
    """One function, with an ftrace site."""

    def __init__(self, code, site=0):
        self.code = bytes.fromhex(code)
        symbol = Symbol("f", KAddr(AT), len(self.code), "T")
        self.kallsyms = SimpleNamespace(
            generation=0, lookup_name=lambda _name: [], symbol_at=lambda _at: symbol
        )
        self.text = SimpleNamespace(
            ftrace_location=lambda start, end: site if start <= site <= end else None
        )

    def read(self, addr, size):
        return self.code[addr - AT : addr - AT + size]


def refused(tables, offset=0):
    with pytest.raises(KernelError) as raised:
        JUDGES["riscv64"](tables).check_instruction(AT + offset)
    return raised.value.why


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
    judge = JUDGES["riscv64"](Tables(code))
    judge.check_instruction(AT)
    assert way in judge.check_jump(AT).why_not


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
    assert refused(Tables(code)).endswith("cannot be probed")


def test_instructions_begin_where_those_before_end():
    tables = Tables(C_NOP + NOP + C_NOP)
    for offset in (0, 2, 6):
        JUDGES["riscv64"](tables).check_instruction(AT + offset)
    for offset in (1, 3, 4):
        assert refused(tables, offset) == "no instruction begins there"


def test_the_place_of_a_call():
    assert "ftrace puts its calls there" in refused(Tables(NOP, site=AT))


def test_what_an_older_kernel_does_with_hits():
    """Without that option it drops records of events by breakpoints."""
    judge = JUDGES["riscv64"](Tables(NOP))
    judge.follow("6.12", "CONFIG_KPROBES=y\n")
    assert "record none" in judge.check_jump(AT).why_not
    judge.follow("7.2", "CONFIG_ARCH_HAVE_NMI_SAFE_CMPXCHG=y\n")
    assert "record none" not in judge.check_jump(AT).why_not


def test_a_listing():
    tables = Tables(C_NOP + NOP + C_RET)
    rows = JUDGES["riscv64"](tables).listing(AT, len(tables.code), hex)
    assert [(at - AT, text) for at, _, text in rows] == [
        (0, "c.nop"),
        (2, "nop"),
        (6, "c.jr ra"),
    ]
