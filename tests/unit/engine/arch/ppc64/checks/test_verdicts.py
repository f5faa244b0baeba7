# SPDX-License-Identifier: GPL-2.0-or-later
"""Judging code of ppc64, without a kernel.

tests/integration/linux/test_explain.py asks a kernel.
"""

from functools import partial

import pytest

from kpfs.base.ktypes import KAddr
from tests.unit.engine.arch.text_tables import Tables

AT = KAddr(0xC000000000100000)
ENTRY = "79014c3c84bb4238"  # addis r2, r12, 0x179; addi r2, r2, -0x447c
MFLR, NOP, STD, BLR = "a602087c", "00000060", "100001f8", "2000804e"
tables = partial(Tables, "ppc64", AT)


@pytest.mark.parametrize(
    "code", [MFLR, NOP, "10000048", "00002038", "1e00807d", "ac04007c"]
)
def test_what_is_computed_could_be_a_jump(code, monkeypatch):
    text = tables(code)
    text.accept(0)
    assert "kernel's own text" in text.judge.check_jump(AT).why_not
    monkeypatch.setattr(text.judge, "_text", (AT, AT + 0x1000))
    assert not text.judge.check_jump(AT).why_not


@pytest.mark.parametrize("code", [STD, BLR, "18000041", "a6005a7d", "2c01007c"])
def test_other_instructions_are_not(code, monkeypatch):
    text = tables(code)
    monkeypatch.setattr(text.judge, "_text", (AT, AT + 0x1000))
    text.accept(0)
    assert "from registers" in text.judge.check_jump(AT).why_not


@pytest.mark.parametrize(
    "code", ["0800e07f", "0000e00f", "02000044", "6401617d", "2400004c", "e402004c"]
)
def test_instructions_that_cannot_be_probed(code):
    assert tables(code).refused().endswith("cannot be probed")
    assert tables(code).refused(2) == "no instruction begins there"


def test_probes_at_entries():
    text = tables(ENTRY + MFLR + NOP + BLR, site=AT + 12)
    text.judge.follow("6.12.0", "CONFIG_KPROBES_ON_FTRACE=y\n")
    assert text.judge.kprobe_lookup_name(AT, 0) == AT + 12
    assert text.judge.kprobe_lookup_name(AT, 4) == AT
    assert text.judge.arch_adjust_kprobe_addr(AT, 12) == (AT + 12, True)
    assert text.judge.arch_adjust_kprobe_addr(AT, 16) == (AT + 16, False)
    text = tables(ENTRY + MFLR)
    assert text.judge.kprobe_lookup_name(AT, 0) == AT + 8
    assert tables(MFLR + NOP).judge.kprobe_lookup_name(AT, 0) == AT
    assert text.judge.arch_adjust_kprobe_addr(AT, 8) == (AT + 8, True)


def test_a_listing_has_whole_instructions():
    rows = tables(MFLR + BLR).judge.listing(AT, 1, hex)
    assert [(row[0], row[1].hex()) for row in rows] == [(AT, MFLR)]
