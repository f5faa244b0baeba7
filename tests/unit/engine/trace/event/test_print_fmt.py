# SPDX-License-Identifier: GPL-2.0-or-later
"""Print formats that are computed. What Linux prints is in conformance/modules."""

import struct

import pytest

from kpfs.engine.trace.event.fields import Field
from kpfs.engine.trace.event.print_fmt import (
    UnknownFormatError,
    plain_format,
    record_text,
)
from kpfs.engine.trace.symbols import pointer_id

FIELDS = (
    Field("int", "n", 8, 4, True),
    Field("unsigned long", "u", 16, 8, False),
    Field("char", "name[8]", 24, 8, True),
    Field("short", "pair[2]", 32, 4, True),
    Field("__data_loc char[]", "text", 36, 4, True),
    Field("__data_loc unsigned long[]", "mask", 40, 4, False),
    Field("struct place", "place", 44, 12, False),
    Field("__rel_loc char[]", "rel", 52, 4, True),  # in the place's end
)
TEXT, MASK = b"words\0", struct.pack("<2Q", 5, 1 << 32)
RECORD = (
    bytes(8)
    + struct.pack("<i4xQ8s2h", -3, 0xFFFFFFFF81000000, b"abc", 7, -1)
    + struct.pack("<2I8xI", len(TEXT) << 16 | 56, len(MASK) << 16 | 62, len(TEXT) << 16)
    + TEXT
    + MASK
)


def symbol(addr, offset):
    return "_text+0x0/0x10" if offset else "_text"


def shown(print_fmt, before=b""):
    """Return the text of the record, which lies behind other bytes."""
    text = record_text(print_fmt, FIELDS, symbol)
    return text(memoryview(before + RECORD), len(before))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('"%d %u %x", REC->n, REC->n, REC->n', "-3 4294967293 fffffffd"),
        ('"%ld %lx %hhd", REC->n, REC->u, 257', "-3 ffffffff81000000 1"),
        ('"%5d|%-5d|%05d|%+d", 7, 7, 7, 7', "    7|7    |00007|+7"),
        ('"%#x %#lx %c%%", 0, 31UL, 65', "0x0 0x1f A%"),
        ('"%*d|%.*s", 4, 7, 2, "text"', "   7|te"),
        ('"%s %.2s %s", REC->name, REC->name, "a" "b"', "abc ab ab"),
        ('"%s", __get_str(text)', "words"),
        ('"%d %d", REC->pair[0], REC->pair[1 + 0]', "7 -1"),
        ('"%d", REC->pair[9]', "-1"),
        ('"%d", 1 + 2 * 3 - 8 / 3 % 2', "7"),
        ('"%d %d", -7 / 2, -7 % 2', "-3 -1"),
        ('"%d", 1 / 0', "0"),
        ('"%d%d%d%d", 1 < 2, 2 >= 3, 1 == 1 && !0, 0 || 0', "1010"),
        ('"%x", ~0x0f & 0xff | 1 << 8 ^ 010', "1f8"),
        ('"%s", REC->n < 0 ? "minus" : REC->n ? "plus" : "none"', "minus"),
        ('"%u %lu", (u8)-1, (unsigned long)(unsigned int)-1', "255 4294967295"),
        ('"%d", (signed char)200', "-56"),
        ('"%zu %zu", sizeof(int), sizeof(struct page *)', "4 8"),
        ('"%pS %ps %px", (void *)REC->u, REC->u, REC->u', None),
        ('"%u", __get_dynamic_array_len(mask)', "16"),
        ('"%s", __get_bitmask(mask)', "00000001,00000000,00000000,00000005"),
        ("\"%c\", 'x'", "x"),
        ('"%s", __print_symbolic(REC->n, { -3, "three" }, { 1, "one" })', "three"),
        ('"%s", __print_symbolic(16, { 1, "one" })', "0x10"),
        ('"%s", __print_flags(7, "|", { 1, "A" }, { 2, "B" })', "A|B|0x4"),
        ('"%s", __print_flags(0, "|", { 1, "A" })', ""),
        ('"%s", __print_hex(REC->name, 3)', "61 62 63"),
        ('"%s", __print_hex_str(REC->name, 3)', "616263"),
        ('"%s", __print_array(REC->pair, 2, 2)', "{0x7,0xffff}"),
        ('"%s", __print_array(REC->pair, 9, 2)', "{0x7,0xffff}"),
        ('"%s", __print_dynamic_array(mask, sizeof(long))', "{0x5,0x100000000}"),
        ('"%*pbl %*pb", 128, __get_dynamic_array(mask), 20, REC->name', "0,2,96 36261"),
        (
            '"%*pb %*pbl", 64, __get_dynamic_array(mask), 8, REC->pair',
            "00000000,00000005 0-2",
        ),
        ('"%s %u", __get_rel_str(rel), __get_rel_dynamic_array_len(rel)', "words 6"),
        ('"no argument", ', "no argument"),
    ],
)
def test_text(arguments, expected):
    if expected is None:
        expected = "_text+0x0/0x10 _text ffffffff81000000"
    assert shown(arguments) == shown(arguments, b"12345678") == expected


def test_a_plain_pointer_is_hashed():
    assert shown('"%p", REC->u') == pointer_id(0xFFFFFFFF81000000)


@pytest.mark.parametrize(
    "print_fmt",
    [
        "no format",
        '"%d", ',
        '"%d", REC->nothing',
        '"%d", kernel_function(REC->n)',
        '"%pI4", REC->u',
        '"%d", REC->place',
        '"%d", (1',
        '"%d", 1 2',
        '"%d", 0y',
        '"%k", 1',
        '"%s", __print_symbolic(1, { REC->n })',
    ],
)
def test_unknown_formats(print_fmt):
    with pytest.raises(UnknownFormatError):
        record_text(print_fmt, FIELDS, symbol)


def test_a_format_for_events_whose_own_is_not_known():
    assert shown(plain_format(FIELDS)) == (
        "n=-3 u=18446744071578845184 name=abc pair=07 00 ff ff text=words mask="
        + " ".join(f"{byte:02x}" for byte in MASK)
        + " rel=words"
    )
