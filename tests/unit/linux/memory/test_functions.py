# SPDX-License-Identifier: GPL-2.0-or-later
"""The index of functions: which calls which, by code that is made here."""

import struct
from typing import Any

import pytest

from kpfs.base.errors import MemoryFault
from kpfs.linux.memory.functions import (
    FunctionIndex,
    index_pieces,
    returns_to,
    source_name,
)
from kpfs.linux.memory.symbols import CoreSymbols

BASE = 0xFFFFFFFF81000000
SIZE = 0x20  # bytes that each function takes
NAMES = "caller", "callee", "tail", "leaf.part.0", "leaf"


class Text:
    """Functions of one size, which call each other."""

    def __init__(self, code):
        self.code = bytearray(code.ljust(SIZE * len(NAMES), b"\0"))

    def read(self, addr, size):
        if not BASE <= addr <= addr + size <= BASE + len(self.code):
            raise MemoryFault(addr)
        return bytes(self.code[addr - BASE : addr - BASE + size])


def x86(at, target, tail=False):
    return bytes([0xE9 if tail else 0xE8]) + struct.pack("<i", target - at - 5)


def arm64(at, target, tail=False):
    word = (0x14000000 if tail else 0x94000000) | (target - at) // 4 & 0x3FFFFFF
    return struct.pack("<I", word)


def riscv64(at, target, tail=False):
    by, link = (6, 0) if tail else (1, 1)
    low = target - at
    high = (low + 0x800) >> 12
    pair = (
        high << 12 | by << 7 | 0x17,
        (low - (high << 12)) << 20 | by << 15 | link << 7,
    )
    return struct.pack("<II", pair[0] & 0xFFFFFFFF, (pair[1] | 0x67) & 0xFFFFFFFF)


def s390x(at, target, tail=False):
    return bytes((0xC0, 0xF4 if tail else 0xE5)) + struct.pack(">i", (target - at) // 2)


def ppc64(at, target, tail=False):
    return struct.pack("<I", 18 << 26 | target - at & 0x3FFFFFC | (not tail))


def armhf(at, target, tail=False):
    kind = 0xEA if tail else 0xEB
    return struct.pack("<I", kind << 24 | (target - at - 8) // 4 & 0xFFFFFF)


@pytest.mark.parametrize(
    ("arch", "call"),
    [
        *(("x86", x86), ("arm64", arm64), ("riscv64", riscv64)),
        *(("s390x", s390x), ("ppc64", ppc64), ("armhf", armhf)),
    ],
)
def test_calls_of_each_architecture(tmp_path, arch, call):
    """A call into the middle of a function, or its own begin, is none."""
    place = {name: BASE + SIZE * number for number, name in enumerate(NAMES)}
    text: Any = Text(b"")
    # what a call passes by: a landing pad, or what loads r2
    behind = 8 if arch == "ppc64" else 4
    for at, target, tail in (
        (place["caller"], place["callee"], False),
        (place["caller"] + 8, place["leaf"] + behind, False),
        (place["callee"] + 4, place["caller"], False),
        (place["callee"] + 12, place["tail"], True),
        (place["tail"], place["leaf"] + 12 - behind, False),
        (place["tail"] + 8, place["tail"], True),
    ):
        code = call(at, target, tail)
        text.code[at - BASE : at - BASE + len(code)] = code
    rows = [(BASE, "T _stext"), *((addr, f"t {name}") for name, addr in place.items())]
    rows.append((BASE + len(text.code), "T _etext"))
    lines = "".join(f"{addr:016x} {row}\n" for addr, row in rows)
    (tmp_path / "symbols").write_text(lines)
    index = FunctionIndex(
        index_pieces(text, CoreSymbols(str(tmp_path / "symbols")), arch)
    )
    parts = text, CoreSymbols(str(tmp_path / "symbols")), arch
    size = len(call(0, 8))
    assert [*returns_to(*parts, "caller nosuch callee", "leaf")] == [
        place["caller"] + 8 + size
    ]
    assert not [*returns_to(*parts, "callee", "tail")]  # a jump does not return
    assert index.callees("caller") == {"callee", "leaf"}
    assert index.callees("callee") == {"caller", "tail"}
    assert index.callees("tail") == set()
    assert index.callers("leaf") == {"caller"}
    assert "callee" in index
    assert "call" not in index
    assert index.made_of("leaf") == ["leaf.part.0"]
    assert index.around("callee", 1) == ["caller", "tail"]
    assert index.prototype("callee") == ""


def test_names_of_the_source():
    for made in ("f", "f.isra.0", "f.constprop.0.isra.1", "f.part.0.cold"):
        assert source_name(made) == "f"
    assert source_name("f.static") == "f.static"
