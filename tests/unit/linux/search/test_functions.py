# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of functions: each row can be read, and each kernel has its own names."""

from collections import Counter
from typing import Any, cast

from kpfs.base import abi
from kpfs.linux.search.functions import known_functions, rows


class Symbols:
    def __init__(self, *names):
        self.names = names

    def address(self, name):
        return 0x1000 + self.names.index(name) if name in self.names else 0


class Saved:
    def __init__(self, *names):
        self.symbols = Symbols(*names)


def known(*names, returning=()):
    return {
        row.name: row for row in known_functions(cast(Any, Saved(*names)), returning)
    }


def test_the_whole_table_can_be_read():
    names = [name for row in rows() for name in row.names if "*" not in name]
    assert len(known(*names)) == len(set(names))


def test_no_name_stands_twice_for_the_same_callers():
    listed = [row for row in rows() if "at_entry" not in row.how]
    counts = Counter(name for row in listed for name in row.names)
    assert [name for name, count in counts.items() if count > 1] == []


def test_a_row_tells_arguments_and_failure():
    found = known("kmemdup", "_copy_from_user", "misc_register")
    assert found["kmemdup"].kind == abi.FN_ALLOC
    assert found["kmemdup"].size == 1
    assert found["kmemdup"].fails
    assert found["kmemdup"].error == 0
    assert found["_copy_from_user"].fails_as == 2
    assert found["misc_register"].error == -12


def test_one_function_is_looked_at_where_it_is_called_and_where_it_begins():
    krealloc = known("krealloc")["krealloc"]
    assert krealloc.kind == abi.FN_ALLOC
    assert krealloc.entry_kind == abi.FN_FORGET
    assert (krealloc.source, krealloc.size, krealloc.to) == (0, 1, 0)


def test_a_name_with_a_star_is_for_functions_that_may_fail():
    names = "register_netdev", "register_sound", "register_nothing"
    found = known(*names, returning=["register_sound"])
    assert set(found) == {"register_netdev", "register_sound"}


def test_rows_are_sorted_by_address():
    found = list(known("vfree", "kfree", "memcpy").values())
    assert found == sorted(found, key=lambda row: row.address)
