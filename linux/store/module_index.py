# SPDX-License-Identifier: GPL-2.0-or-later
"""The binary form of the tables of depmod, which modprobe looks names up in.

Big-endian: MAGIC, VERSION, place of the root; then nodes, those below before those
above.  The upper bits of a place say what the node there has: a prefix that ends with
NUL; first and last letter of those below and their places; a count of values, each a
priority and text that ends with NUL.

Document: libkmod, libkmod-index.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

MAGIC, VERSION = 0xB007F457, 0x00020001
PREFIX, VALUES, CHILDREN = 1 << 31, 1 << 30, 1 << 29
_HEAD = struct.Struct(">III")
_WORD = struct.Struct(">I")

Row = tuple[int, str, str]  # priority, key and value; the least comes first


def index(rows: Iterable[Row]) -> bytes:
    """A table; each value of a key is in it once."""
    keys: dict[str, list[tuple[int, str]]] = {}
    for priority, key, value in sorted(rows):
        values = keys.setdefault(key, [])
        if (priority, value) not in values:
            values.append((priority, value))
    out = bytearray(_HEAD.size)
    root = _put(sorted(keys.items()), 0, out)
    _HEAD.pack_into(out, 0, MAGIC, VERSION, root)
    return bytes(out)


def _put(
    keys: list[tuple[str, list[tuple[int, str]]]], depth: int, out: bytearray
) -> int:
    """Write a node for sorted keys, which agree up to depth: its place."""
    if not keys:
        return _place(out, 0)
    first, last = keys[0][0], keys[-1][0]
    end = depth
    while end < min(len(first), len(last)) and first[end] == last[end]:
        end += 1
    values = keys[0][1] if len(first) == end else []
    below: dict[str, list[tuple[str, list[tuple[int, str]]]]] = {}
    for row in keys[bool(values) :]:
        below.setdefault(row[0][end], []).append(row)
    places = {letter: _put(rows, end + 1, out) for letter, rows in below.items()}
    flags, node = 0, bytearray()
    if end > depth:
        flags |= PREFIX
        node += first[depth:end].encode() + b"\0"
    if places:
        flags |= CHILDREN
        low, high = ord(min(places)), ord(max(places))
        node += bytes((low, high))
        for letter in range(low, high + 1):
            node += _WORD.pack(places.get(chr(letter), 0))
    if values:
        flags |= VALUES
        node += _WORD.pack(len(values))
        for priority, value in values:
            node += _WORD.pack(priority) + value.encode() + b"\0"
    at = _place(out, flags)
    out += node
    return at


def _place(out: bytearray, flags: int) -> int:
    """The place of what is written next."""
    return len(out) | flags
