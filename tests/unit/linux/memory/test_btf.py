# SPDX-License-Identifier: GPL-2.0-or-later
"""The places of structures' fields, by types that are made here."""

import struct

import pytest

from kpfs.linux.memory.btf import ANY, Btf

INT, STRUCT, UNION, ARRAY, ENUM, TYPEDEF = 1, 4, 5, 3, 6, 8
BITS = 1 << 31  # flag of a type whose members have sizes in bits


class Types:
    """Types by their numbers, from 1 on, and their names."""

    def __init__(self):
        self.types, self.names, self.count = b"", b"\0", 0

    def name(self, text):
        at = len(self.names)
        self.names += text.encode() + b"\0"
        return at if text else 0

    def add(self, kind, name, size, *words, parts=0):
        info = kind << 24 | parts | (kind & BITS)
        head = self.name(name), info & 0xFFFFFFFF, size
        self.types += struct.pack(f"<{3 + len(words)}I", *head, *words)
        self.count += 1
        return self.count

    def members(self, kind, name, size, *members, flag=0):
        words = [w for n, *rest in members for w in (self.name(n), *rest)]
        info = kind << 24 | len(members) | flag
        head = struct.pack("<3I", self.name(name), info, size)
        self.types += head + struct.pack(f"<{len(words)}I", *words)
        self.count += 1
        return self.count

    def raw(self):
        sizes = 0, len(self.types), len(self.types), len(self.names)
        return (
            struct.pack("<HBBI4I", 0xEB9F, 1, 0, 24, *sizes) + self.types + self.names
        )


@pytest.fixture
def types():
    made = Types()
    number = made.add(INT, "int", 4, 32)
    inner = made.members(STRUCT, "inner", 8, ("a", number, 0), ("b", number, 32))
    alias = made.add(TYPEDEF, "inner_t", inner)
    row = made.add(ARRAY, "", 0, alias, number, 2)
    union = made.members(UNION, "", 8, ("left", number, 0), ("right", alias, 0))
    made.members(
        STRUCT,
        "outer",
        40,
        ("first", number, 0),
        ("rows", row, 64),
        ("", union, 192),
        ("flag", number, 3 << 24 | 258),
        ("byte", made.add(INT, "u8", 1, 8), 272),
        flag=BITS,
    )
    made.members(ENUM, "kinds", 4, ("ONE", 1), ("NONE", 0xFFFFFFFF))
    return made


def test_fields_by_their_paths(types):
    wanted = "first", "rows", "rows.b", "left", "right.b", "flag", "byte", "first.none"
    layout = Btf(types.raw()).layouts({"outer": wanted})["outer"]
    assert layout.size == 40
    assert layout.at == {
        "first": 0,
        "rows": 8,
        "rows.b": 12,
        "left": 24,
        "right.b": 28,
        "flag": 32,
        "byte": 34,
    }
    assert layout.bits == {"flag": (2, 3), "byte": (0, 8)}
    assert layout.has("rows.b")
    assert not layout.has("none")


def test_what_is_not_there(types):
    btf = Btf(types.raw())
    assert btf.layouts({"nothing": ("a",)}) == {}
    assert btf.values(("ONE", "NONE", "outer", "nothing")) == {
        "ONE": 1,
        "NONE": 0xFFFFFFFF,
    }
    assert btf.enumerators("kinds") == {1: "ONE", 0xFFFFFFFF: "NONE"}
    assert btf.enumerators("nothing") == btf.enumerators("outer") == {}


def test_what_is_no_btf(types):
    for raw in (b"", bytes(100), types.raw()[:10]):
        with pytest.raises(ValueError, match="no BTF"):
            Btf(raw)
    unknown = Types()
    unknown.add(29, "new", 0)
    with pytest.raises(ValueError, match="unknown kind 29"):
        Btf(unknown.raw())


def test_types_in_a_circle():
    made = Types()
    made.add(TYPEDEF, "self", 1)
    made.members(STRUCT, "ring", 8, ("next", 1, 0))
    with pytest.raises(ValueError, match="circle"):
        Btf(made.raw()).layouts({"ring": ("next.a",)})


def test_registers_that_arguments_take(types):
    number, inner, outer = 1, 2, 7
    pointer = types.add(2, "", outer)
    wide = types.members(STRUCT, "wide", 16, ("a", number, 0))
    names = {
        "none": (0,),
        "two": (0, number, pointer),
        "of_structures": (0, inner, wide, number),
        "prints": (number, pointer, 0),
        "returns_two": (wide, number),
        "returns_much": (outer, number),
    }
    for name, (result, *kinds) in names.items():
        words = [word for kind in kinds for word in (0, kind)]
        prototype = types.add(13, "", result, *words, parts=len(kinds))
        types.add(12, name, prototype)
    assert dict(Btf(types.raw()).arguments()) == {
        "none": ANY,
        "two": 2,
        "of_structures": 4,
        "prints": ANY,
        "returns_two": 1,
        "returns_much": ANY,
    }
