# SPDX-License-Identifier: GPL-2.0-or-later
"""The symbols of a kernel, looked up in the text that is kept."""

import pytest

from kpfs.linux.memory.symbols import CoreSymbols
from tests.there import there

TEXT = """\
0000000000000000 A per_cpu
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000010 T twice
ffffffff81000040 t other
ffffffff81000040 W weak
ffffffff81000050 t twice
ffffffff81000060 D data
ffffffff81000080 D end
"""
BASE = 0xFFFFFFFF81000000


KEPT = {
    "searched": None,
    "sorted": lambda make: make(),
    "nobody could keep it": lambda make: None,
}


@pytest.fixture(params=KEPT)
def read(tmp_path, request):
    """Makes the symbols of a text, which is searched or has an order by names."""

    def make(text):
        (tmp_path / "symbols").write_text(text)
        return CoreSymbols(str(tmp_path / "symbols"), KEPT[request.param])

    return make


@pytest.fixture
def symbols(read):
    return read(TEXT)


def test_by_name_in_their_order(symbols):
    first, second = symbols.lookup_name("twice")
    assert (first.addr, first.size, first.type) == (BASE + 0x10, 0x30, "T")
    assert (second.addr, second.size, second.type) == (BASE + 0x50, 0x10, "t")
    assert not symbols.lookup_name("wic")
    assert not symbols.lookup_name("twice\udcff\u00e9\u4f60")
    assert symbols.address("_text") == BASE
    for name in ("none", "", "A", "a", "zzz", "T end", "end\nffffffff81000080"):
        assert symbols.address(name) == 0
        assert not symbols.lookup_name(name)


def test_functions_with_what_compilers_add(read):
    rows = [
        *("T read", "t end.cold", "t read.part.0", "t reader", "d read", "t bread"),
        *("t read$", "d read.data", "t read.cold", "T end"),
    ]
    text = "".join(f"{BASE + 16 * n:016x} {row}\n" for n, row in enumerate(rows))
    found = read(text).functions_made_of(["read", "none", "end", "read"])
    assert [(row.name, (row.addr - BASE) // 16) for row in found] == [
        ("read", 0),
        ("end.cold", 1),
        ("read.part.0", 2),
        ("read.cold", 8),
        ("end", 9),
    ]


def test_lines_that_are_none(read):
    """A name that ends such a line is no symbol."""
    text = (
        "a name\n  \nffffffff81000000 T two words name\nffffffff81000010 T name\nx name"
    )
    (found,) = read(text).lookup_name("name")
    assert found.addr == BASE + 16


def test_a_text_without_a_line(read):
    assert not read("ffffffff81000010 T name").lookup_name("name")


@pytest.mark.parametrize(
    ("offset", "name"),
    [
        (0, "_stext"),  # the first of two
        (0xF, "_stext"),
        (0x10, "twice"),
        (0x3F, "twice"),
        (0x4F, "other"),
        (0x7F, "data"),
        (0x80, "end"),
    ],
)
def test_by_address(symbols, offset, name):
    assert symbols.symbol_at(BASE + offset).name == name


@pytest.mark.parametrize("longest", [20, 6000])
def test_by_address_in_a_long_text(tmp_path, longest):
    """Lines whose addresses are kept may be far apart."""
    names = [f"f{n}".ljust(longest * (n % 7 == 0), "x") for n in range(600)]
    rows = [f"{BASE + 16 * (n // 2):016x} t {name}\n" for n, name in enumerate(names)]
    (tmp_path / "symbols").write_text("".join(rows))
    found = CoreSymbols(str(tmp_path / "symbols"))
    for n in range(0, 598, 2):  # the first of two at one address
        for offset in (0, 15):
            assert there(found.symbol_at(BASE + 8 * n + offset)).name == names[n]
    assert found.symbol_at(BASE - 1) is None


def test_address_without_a_symbol(symbols):
    assert symbols.symbol_at(BASE + 0x81) is None
    assert symbols.name_of(BASE + 0x81) == f"{BASE + 0x81:#x}"
    assert symbols.name_of(BASE + 0x12) == "twice+0x2"


def test_lists(symbols):
    names = ["_stext", "_text", "twice", "other", "weak", "twice"]
    assert list(symbols.functions()) == names
    assert list(symbols.beginning_with("_")) == [(BASE, "_stext"), (BASE, "_text")]
