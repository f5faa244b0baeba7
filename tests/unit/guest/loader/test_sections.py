# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.guest.loader.sections: the tables of hand-made images."""

import struct

import pytest

from kpfs.base.elf import ElfFile
from kpfs.base.ktypes import KAddr, Symbol
from kpfs.guest.loader.sections import SectionTables
from tests.unit.guest.bare import ALLOC, PROGBITS, make_elf

TEXT = 0x4000
SYMBOLS = [
    Symbol("plain", KAddr(TEXT), 0x20, "T"),
    Symbol("hidden", KAddr(TEXT + 0x20), 0x20, "T"),
    Symbol("entry_a", KAddr(TEXT + 0x40), 0x10, "T"),
    Symbol("entry_b", KAddr(TEXT + 0x50), 0x10, "T"),
]


def symbol_at(addr):
    return next((s for s in SYMBOLS if s.addr <= addr < s.addr + s.size), None)


@pytest.fixture
def tables():
    places = {}

    def section(name, addr, data):
        places[name] = addr
        return (name, PROGBITS, ALLOC, addr, data)

    def relative(addr, rows, code):
        size = struct.calcsize(code)
        return b"".join(
            struct.pack(code, row[0] - (addr + n * size), *row[1:])
            for n, row in enumerate(rows)
        )

    image = ElfFile(
        make_elf(
            [
                section("__mcount_loc", 0x5000, struct.pack("<2Q", TEXT + 32, TEXT)),
                section("_kprobe_blacklist", 0x5100, struct.pack("<Q", TEXT + 0x20)),
                section(
                    "__ex_table",
                    0x5200,
                    relative(0x5200, [(TEXT + 9, 0, 1), (TEXT + 4, 0, 1)], "<3i"),
                ),
                section(
                    "__bug_table",
                    0x5300,
                    relative(0x5300, [(TEXT + 7, 0, 1, 0)], "<2i2H"),
                ),
                section(
                    "__jump_table",
                    0x5400,
                    relative(0x5400, [(TEXT + 16, 0, 0)], "<2iq"),
                ),
                section(
                    ".static_call_sites",
                    0x5500,
                    relative(0x5500, [(TEXT + 48, 0)], "<2i"),
                ),
            ]
        )
    )
    tables = SectionTables()
    tables.add(image, places.get)
    return tables


def test_ftrace_location(tables):
    assert tables.ftrace_location(TEXT, TEXT) == TEXT
    assert tables.ftrace_location(TEXT + 1, TEXT + 31) is None
    assert tables.ftrace_location(TEXT + 1, TEXT + 32) == TEXT + 32
    assert tables.ftrace_location(TEXT + 33, TEXT + 99) is None


def test_exception_entries_and_bugs(tables):
    assert tables.has_exception_entry(TEXT + 4, TEXT + 5)
    assert not tables.has_exception_entry(TEXT + 5, TEXT + 9)
    assert tables.has_exception_entry(TEXT + 5, TEXT + 10)
    assert tables.bugs == {TEXT + 7}


@pytest.mark.parametrize("site", [TEXT + 16, TEXT + 48])
def test_reserved_text_is_five_bytes(tables, site):
    for offset in range(-3, 8):
        reserved = tables.text_reserved(site + offset, site + offset)
        assert reserved == (0 <= offset < 5)
    assert tables.text_reserved(site - 3, site)
    assert not tables.text_reserved(site - 3, site - 1)


def test_blacklist_has_functions_then_ranges(tables):
    limits = {"__entry_text_start": TEXT + 0x40, "__entry_text_end": TEXT + 0x60}
    assert [tuple(e) for e in tables.blacklist(symbol_at, limits.get)] == [
        (TEXT + 0x20, TEXT + 0x40, "hidden"),
        (TEXT + 0x40, TEXT + 0x50, "entry_a"),
        (TEXT + 0x50, TEXT + 0x60, "entry_b"),
    ]
