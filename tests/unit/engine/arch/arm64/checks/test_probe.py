# SPDX-License-Identifier: GPL-2.0-or-later
"""Judging code of arm64, without a kernel.

tests/integration/linux/test_explain.py asks a kernel about the same.

Also tests kpfs.engine.arch.arm64.checks.verdicts.
"""

import struct
from types import SimpleNamespace

import pytest

from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KAddr, Symbol
from kpfs.engine.arch.arches import JUDGES

AT = 0xFFFF_8000_0001_0000
NOP, RET = 0xD503201F, 0xD65F03C0
LDXR, STXR = 0x885F7C20, 0x88027C20  # ldxr w0, [x1]; stxr w2, w0, [x1]


class Tables:
    """One function, with an ftrace site and an exception entry."""

    def __init__(self, *words, site=0, fixup=0):
        self.code = struct.pack(f"<{len(words)}I", *words)
        symbol = Symbol("f", KAddr(AT), len(self.code), "T")
        self.kallsyms = SimpleNamespace(
            generation=0, lookup_name=lambda _name: [], symbol_at=lambda _at: symbol
        )
        self.text = SimpleNamespace(
            ftrace_location=lambda start, end: site if start <= site <= end else None,
            has_exception_entry=lambda start, end: start <= fixup < end,
        )

    def read(self, addr, size):
        return self.code[addr - AT : addr - AT + size]


def refused(tables, offset):
    with pytest.raises(KernelError) as raised:
        JUDGES["arm64"](tables).check_instruction(AT + offset)
    return raised.value.why


@pytest.mark.parametrize(
    ("word", "way"),
    [
        (NOP, "stepped"),
        (0x91000400, "stepped"),  # add x0, x0, #1
        (0xD503233F, "stepped"),  # paciasp
        (0xD5033FDF, "stepped"),  # isb
        (0xD5384100, "stepped"),  # mrs x0, sp_el0
        (RET, "simulated"),
        (0x54000040, "simulated"),  # b.eq
        (0x94000010, "simulated"),  # bl
        (0x3400_0040, "simulated"),  # cbz
        (0x3700_0040, "simulated"),  # tbnz
        (0x10000000, "simulated"),  # adr
        (0x58000040, "simulated"),  # ldr x0, literal
        (0x98000040, "simulated"),  # ldrsw x0, literal
    ],
)
def test_instructions_that_can_be_probed(word, way):
    judge = JUDGES["arm64"](Tables(word))
    judge.check_instruction(AT)
    assert way in judge.check_jump(AT).why_not


@pytest.mark.parametrize(
    "word",
    [
        0xD4000001,  # svc #0
        0xD4210000,  # brk #0x800
        0xD503207F,  # wfi
        0xD50323BF,  # autiasp
        0xD5184100,  # msr sp_el0, x0
        0xD50343DF,  # msr daifset, #3
        0xD53B4220,  # mrs x0, daif
        0xD69F03E0,  # eret
        0xD65F0BFF,  # retaa
        0xD63F081F,  # blraaz x0
        0xD8000040,  # prfm, literal
        LDXR,
        STXR,
    ],
)
def test_instructions_that_cannot_be_probed(word):
    assert "cannot be probed" in refused(Tables(word), 0)


def test_places_that_cannot_be_probed():
    assert refused(Tables(NOP, NOP), 2) == "no instruction begins there"
    assert "ftrace" in refused(Tables(NOP, NOP, site=AT + 4), 4)
    assert "exception table" in refused(Tables(NOP, NOP, fixup=AT + 4), 4)


def test_between_an_exclusive_load_and_its_store():
    tables = Tables(NOP, LDXR, NOP, NOP, STXR, NOP)
    assert (
        refused(tables, 12)
        == f"between the exclusive load at {AT + 4:#x} and its store"
    )
    JUDGES["arm64"](tables).check_instruction(AT + 20)
    # the kernel looks so far back
    tables = Tables(LDXR, *[NOP] * 40)
    refused(tables, 4 * 32)
    JUDGES["arm64"](tables).check_instruction(AT + 4 * 33)


def test_a_listing_has_whole_instructions():
    rows = JUDGES["arm64"](Tables(NOP, RET)).listing(AT + 2, 4, hex)
    assert [(at - AT, words) for at, _, words in rows] == [(0, "nop"), (4, "ret")]
