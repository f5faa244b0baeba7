# SPDX-License-Identifier: GPL-2.0-or-later
"""Records are decoded by the formats of their fields."""

import struct

import pytest

from kpfs.session.records import Record, decode, field_format

RECORD = Record(
    timestamp=1_234_567_890,
    cpu=3,
    pid=42,
    comm="sh",
    flags=".....",
    group="kprobes",
    event="e",
    fields={"cpu": 7, "name": "x"},
    text="e: (f+0x0/0x10) cpu=7",
)


@pytest.mark.parametrize(
    ("kind", "name", "size", "signed", "raw", "value"),
    [
        ("u8", "a", 1, False, b"\xff", 255),
        ("s8", "a", 1, True, b"\xff", -1),
        ("unsigned long", "a", 8, False, struct.pack("<Q", 1 << 63), 1 << 63),
        ("pid_t", "a", 4, True, struct.pack("<i", -3), -3),
        ("char", "comm[16]", 16, True, b"sh\0junk".ljust(16, b"\0"), "sh"),
        ("u16[3]", "a", 6, False, struct.pack("<3H", 1, 2, 65535), [1, 2, 65535]),
        ("u16", "a[]", 6, False, struct.pack("<3H", 1, 2, 65535), [1, 2, 65535]),
        ("s64", "a[]", 16, True, struct.pack("<2q", -1, 2), [-1, 2]),
        ("long", "args[2]", 16, True, struct.pack("<2q", -1, 2), [-1, 2]),
        ("unsigned long", "caller[8]", 64, False, struct.pack("<2Q", 1, 2), [1, 2]),
        ("char", "buf[]", 0, True, b"marked\n\0\0", "marked\n"),
    ],
)
def test_a_value(kind, name, size, signed, raw, value):
    field = field_format(kind, name, 8, size, signed)
    assert decode([field], bytes(8) + raw) == {name.partition("[")[0]: value}


def test_bytes_without_a_size():
    field = field_format("char", "buf[]", 4, 0, True)
    assert decode([field], bytes(4) + b"\1\0\2", binary=True) == {"buf": b"\1\0\2"}


def test_strings_lie_behind_the_fields():
    one = field_format("__data_loc char[]", "s", 0, 4, True)
    two = field_format("__data_loc char[][2]", "many", 4, 8, True)
    words = struct.pack("<3I", 3 << 16 | 12, 2 << 16 | 15, 0)
    data = words + b"ab\0c\0"
    assert decode([one, two], data) == {"s": "ab", "many": ["c", None]}


def test_a_row_of_a_table():
    row = RECORD.as_dict()
    assert (row["cpu"], row["e.cpu"], row["name"]) == (3, 7, "x")
    assert (RECORD["name"], RECORD.time) == ("x", 1.23456789)


def test_the_line():
    line = "              sh-42      [003] .....     1.234568: e: (f+0x0/0x10) cpu=7"
    assert str(RECORD) == line
