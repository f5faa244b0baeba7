# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.guest.loader.kallsyms: order, aliases, sizes, modules."""

import pytest

from kpfs.base.elf import ElfFile
from kpfs.base.ktypes import KAddr, Symbol
from kpfs.guest.loader.kallsyms import Kallsyms, SymbolTable
from tests.unit.guest.bare import ALLOC, EXEC, NOBITS, PROGBITS, WRITE, make_elf

BASE = 0x4000
FUNC, LOCAL_FUNC, OBJECT, WEAK, FILE = 0x12, 0x02, 0x11, 0x22, 0x04


@pytest.fixture
def kallsyms():
    data = make_elf(
        [
            (".text", PROGBITS, ALLOC | EXEC, BASE, bytes(256)),
            (".rodata", PROGBITS, ALLOC, BASE + 0x100, bytes(64)),
            (".data", PROGBITS, ALLOC | WRITE, BASE + 0x140, bytes(64)),
            (".bss", NOBITS, ALLOC | WRITE, BASE + 0x180, 64),
        ],
        [
            ("a.c", 0, 0xFFF1, FILE),
            ("__x64_sys_getppid", BASE + 0x20, 1, FUNC),
            ("__do_sys_getppid", BASE + 0x20, 1, LOCAL_FUNC),
            ("start", BASE, 1, FUNC),
            ("__start_section", BASE + 0x40, 1, FUNC),
            ("zz_weak", BASE + 0x40, 1, WEAK),
            ("_under", BASE + 0x40, 1, FUNC),
            ("plain", BASE + 0x40, 1, LOCAL_FUNC),
            ("twin", BASE + 0x60, 1, LOCAL_FUNC),
            ("twin", BASE + 0x80, 1, LOCAL_FUNC),
            ("table", BASE + 0x100, 2, OBJECT),
            ("word", BASE + 0x140, 3, OBJECT),
            ("zeros", BASE + 0x180, 4, OBJECT),
            ("undefined", 0, 0, FUNC),
            ("absolute", 5, 0xFFF1, FUNC),
        ],
        segments=[(5, BASE, bytes(0x180), 0x1C0)],
    )
    return Kallsyms(ElfFile(data))


def test_kernels_of_one_configuration_share_their_symbols(kallsyms):
    image = ElfFile(bytes(bytearray(kallsyms._image.data)))
    assert Kallsyms(image).kernel is kallsyms.kernel
    few = Kallsyms(image, everything=False)
    assert "table" not in [symbol.name for symbol in few]
    assert "start" in [symbol.name for symbol in few]
    assert "start" not in [symbol.name for symbol in Kallsyms(image, hidden=["start"])]


def test_order_and_types(kallsyms):
    shown = [(s.name, s.type) for s in kallsyms]
    assert shown == [
        ("start", "T"),
        ("__do_sys_getppid", "t"),
        ("__x64_sys_getppid", "T"),
        ("plain", "t"),
        ("_under", "T"),
        ("__start_section", "T"),
        ("zz_weak", "W"),
        ("twin", "t"),
        ("twin", "t"),
        ("table", "R"),
        ("word", "D"),
        ("zeros", "B"),
    ]


def test_the_first_alias_is_shown(kallsyms):
    for offset in (0x20, 0x3F):
        assert kallsyms.symbol_at(BASE + offset).name == "__do_sys_getppid"
    assert kallsyms.symbol_at(BASE + 0x41).name == "plain"


def test_sizes_reach_to_the_next_address(kallsyms):
    assert kallsyms.symbol_at(BASE).size == 0x20
    assert [s.size for s in kallsyms.lookup_name("__x64_sys_getppid")] == [0x20]
    assert kallsyms.symbol_at(BASE + 0x181).size == 0x40
    assert kallsyms.symbol_at(BASE + 0x1C0) is None
    assert kallsyms.symbol_at(BASE - 1) is None


def test_lookup_name(kallsyms):
    assert [s.addr for s in kallsyms.lookup_name("twin")] == [BASE + 0x60, BASE + 0x80]
    assert list(kallsyms.lookup_name("nobody")) == []


def test_modules(kallsyms):
    rows = [(0x9000, "m_init", 0x10), (0x9010, "twin", 0x30), (0x9010, "alias", 0x30)]
    kallsyms.set_module("mod", [Symbol(n, KAddr(a), s, "t", "mod") for a, n, s in rows])
    assert [s.name for s in kallsyms][-3:] == ["m_init", "twin", "alias"]
    assert [s.addr for s in kallsyms.lookup_name("mod:twin")] == [0x9010]
    assert [s.module for s in kallsyms.lookup_name("twin")] == ["", "", "mod"]
    assert list(kallsyms.lookup_name("none:twin")) == []
    found = kallsyms.symbol_at(0x9020)
    assert (found.name, found.size, found.module) == ("twin", 0x30, "mod")
    kallsyms.remove_module("mod")
    assert kallsyms.symbol_at(0x9020) is None
    assert [s.module for s in kallsyms.lookup_name("twin")] == ["", ""]


def test_the_engine_s_own_names_come_last(kallsyms):
    own = [Symbol(n, KAddr(0xA000), 8, "t") for n in ("kp_entry", "twin")]
    kallsyms.set_runtime(own)
    assert list(kallsyms.lookup_name("kp_entry")) == own[:1]
    assert [s.addr for s in kallsyms.lookup_name("twin")] == [BASE + 0x60, BASE + 0x80]


def test_an_answer_does_not_depend_on_those_before(kallsyms):
    # sizes as no image has them: one reaches over the next, one leaves a gap
    rows = [("over", 16, 40), ("within", 32, 8), ("apart", 64, 8), ("end", 80, 1)]
    symbols = [Symbol(name, KAddr(at), size, "t", "") for name, at, size in rows]
    kallsyms.kernel = SymbolTable(symbols)
    asked = [*range(90), *range(90, -1, -1), *(n * 37 % 90 for n in range(90))]
    for addr in asked:
        assert kallsyms.symbol_at(addr) == SymbolTable(symbols).at(addr), addr
