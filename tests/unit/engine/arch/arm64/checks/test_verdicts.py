# SPDX-License-Identifier: GPL-2.0-or-later
"""Judging code of arm64, without a kernel.

tests/integration/linux/test_explain.py asks a kernel about the same.
"""

from functools import partial

import pytest

from tests.unit.engine.arch.text_tables import Tables

AT = 0xFFFF_8000_0001_0000
NOP, RET = "1f2003d5", "c0035fd6"
LDXR, STXR = "207c5f88", "207c0288"  # ldxr w0, [x1]; stxr w2, w0, [x1]
tables = partial(Tables, "arm64", AT)


@pytest.mark.parametrize(
    ("word", "way"),
    [
        (NOP, "stepped"),
        ("00040091", "stepped"),  # add x0, x0, #1
        ("3f2303d5", "stepped"),  # paciasp
        ("df3f03d5", "stepped"),  # isb
        ("004138d5", "stepped"),  # mrs x0, sp_el0
        (RET, "simulated"),
        ("40000054", "simulated"),  # b.eq
        ("10000094", "simulated"),  # bl
        ("40000034", "simulated"),  # cbz
        ("40000037", "simulated"),  # tbnz
        ("00000010", "simulated"),  # adr
        ("40000058", "simulated"),  # ldr x0, literal
        ("40000098", "simulated"),  # ldrsw x0, literal
    ],
)
def test_instructions_that_can_be_probed(word, way):
    assert way in tables(word).way()


@pytest.mark.parametrize(
    "word",
    [
        "010000d4",  # svc #0
        "000021d4",  # brk #0x800
        "7f2003d5",  # wfi
        "bf2303d5",  # autiasp
        "004118d5",  # msr sp_el0, x0
        "df4303d5",  # msr daifset, #3
        "20423bd5",  # mrs x0, daif
        "e0039fd6",  # eret
        "ff0b5fd6",  # retaa
        "1f083fd6",  # blraaz x0
        "400000d8",  # prfm, literal
        LDXR,
        STXR,
    ],
)
def test_instructions_that_cannot_be_probed(word):
    assert "cannot be probed" in tables(word).refused()


def test_places_that_cannot_be_probed():
    assert tables(NOP * 2).refused(2) == "no instruction begins there"
    assert "ftrace" in tables(NOP * 2, site=AT + 4).refused(4)
    assert "exception table" in tables(NOP * 2, fixup=AT + 4).refused(4)


def test_between_an_exclusive_load_and_its_store():
    code = tables(NOP + LDXR + NOP + NOP + STXR + NOP)
    why = f"between the exclusive load at {AT + 4:#x} and its store"
    assert code.refused(12) == why
    code.accept(20)
    # the kernel looks so far back
    code = tables(LDXR + NOP * 40)
    assert code.refused(4 * 32)
    code.accept(4 * 33)


def test_a_listing_has_whole_instructions():
    assert tables(NOP + RET).listing(2, 4) == [(0, "nop"), (4, "ret")]
