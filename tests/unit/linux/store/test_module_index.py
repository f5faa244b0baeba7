# SPDX-License-Identifier: GPL-2.0-or-later
"""The binary tables of depmod: what is written is found again."""

import struct

from kpfs.linux.store.module_index import CHILDREN, MAGIC, PREFIX, VALUES, index

PLACE = (1 << 28) - 1


def word(data, at):
    return struct.unpack_from(">I", data, at)[0]


def found(data, key):
    """The values of a key, as modprobe goes down to them."""
    magic, _, place = struct.unpack_from(">III", data)
    assert magic == MAGIC
    while True:
        at = place & PLACE
        if place & PREFIX:
            end = data.index(b"\0", at)
            prefix, at = data[at:end].decode(), end + 1
            if not key.startswith(prefix):
                return []
            key = key[len(prefix) :]
        first, last, children = 1, 0, at
        if place & CHILDREN:
            first, last, children = data[at], data[at + 1], at + 2
            at = children + 4 * (last - first + 1)
        if not key:
            break
        if not first <= ord(key[0]) <= last:
            return []
        place = word(data, children + 4 * (ord(key[0]) - first))
        if not place:
            return []
        key = key[1:]
    values = []
    count, at = (word(data, at), at + 4) if place & VALUES else (0, at)
    for _ in range(count):
        end = data.index(b"\0", at + 4)
        values.append((word(data, at), data[at + 4 : end].decode()))
        at = end + 1
    return values


def test_keys_of_which_one_begins_as_another():
    rows = [(3, "abc", "x"), (1, "ab", "y"), (2, "abd", "z"), (0, "q*[ab]?", "w")]
    data = index(rows)
    assert all(found(data, key) == [(n, value)] for n, key, value in rows)
    assert [found(data, key) for key in ("a", "abcd", "b", "", "abb")] == [[]] * 5


def test_values_of_one_key_come_by_their_priority_and_once():
    data = index([(5, "a", "x"), (2, "a", "y"), (5, "a", "x")])
    assert found(data, "a") == [(2, "y"), (5, "x")]


def test_an_empty_table():
    assert found(index([]), "a") == []


def test_the_empty_key():
    assert found(index([(0, "", "x"), (1, "a", "y")]), "a") == [(1, "y")]
