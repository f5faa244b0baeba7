# SPDX-License-Identifier: GPL-2.0-or-later
"""The functions of a kernel that lookers know, from the table functions.tsv."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kpfs.base import abi
from kpfs.linux.running.saved_kernel import SavedKernel

_TABLE = os.path.join(os.path.dirname(__file__), "functions.tsv")
_KINDS = {
    "other": abi.FN_OTHER, "alloc": abi.FN_ALLOC, "free": abi.FN_FREE,
    "copy": abi.FN_COPY, "string": abi.FN_STRING, "lock": abi.FN_LOCK,
    "unlock": abi.FN_UNLOCK, "sleeps": abi.FN_SLEEPS, "forget": abi.FN_FORGET,
    "cache": abi.FN_CACHE, "uncache": abi.FN_UNCACHE, "size": abi.FN_SIZE,
}  # fmt: skip
_HOW = {
    "order": abi.HOW_ORDER, "string": abi.HOW_STRING, "array": abi.HOW_ARRAY,
    "cache": abi.HOW_CACHE, "enlarge": abi.HOW_ENLARGE, "redirect": abi.HOW_REDIRECT,
    "pages": abi.HOW_PAGES, "again": abi.HOW_AGAIN, "reads": abi.HOW_READS,
    "joins": abi.HOW_JOINS, "formats": abi.HOW_FORMATS,
    "mutex": abi.HOW_MUTEX, "rwsem": abi.HOW_RWSEM, "spin": abi.HOW_SPIN,
    "rwlock": abi.HOW_RWLOCK, "shared": abi.HOW_SHARED, "tries": abi.HOW_TRIES,
    "irq": abi.HOW_IRQ, "bh": abi.HOW_BH, "at_entry": abi.HOW_AT_ENTRY,
}  # fmt: skip
_TYPES = "tTwW"


class KnownFunction(NamedTuple):
    """A function of this kernel, and how it is looked at: struct function."""

    name: str
    address: int
    kind: int  # abi.FN_*
    how: int  # abi.HOW_*
    to: int = abi.NO_ARGUMENT
    source: int = abi.NO_ARGUMENT
    size: int = abi.NO_ARGUMENT
    fails: bool = False
    fails_as: int = abi.NO_ARGUMENT  # the argument that it returns then
    error: int = 0


class TableRow(NamedTuple):
    """A row of the table."""

    what: str
    how: list[str]
    fails: str
    names: list[str]


def rows() -> Iterator[TableRow]:
    with open(_TABLE, encoding="ascii") as file:
        for line in file:
            if not line.startswith("#"):
                what, how, fails, names = line.rstrip("\n").split("\t")
                yield TableRow(what, how.split(), fails, names.split())


def known_functions(
    saved: SavedKernel, returning: Sequence[str]
) -> list[KnownFunction]:
    """Return those of the table that a kernel has, sorted by their addresses.

    returning: its functions that return an integer or a pointer.  Of several rows for
    one function the later ones are for where it begins, whoever calls it: HOW_AT_ENTRY.
    """
    listed = list(rows())
    found: dict[int, KnownFunction] = {}
    for row in listed:
        for name in row.names:
            names = [each for each in returning if each.startswith(name[:-1])]
            for each in names if name.endswith("*") else [name]:
                address = saved.symbols.address(each)
                if not address:
                    continue
                function = _function(row, each, address)
                first = found.get(address)
                if first is None:
                    found[address] = function
                elif function.how & abi.HOW_AT_ENTRY:
                    found[address] = first._replace(how=first.how | abi.HOW_AT_ENTRY)
    return [found[address] for address in sorted(found)]


def _function(row: TableRow, name: str, address: int) -> KnownFunction:
    how, places = 0, {}
    for word in row.how:
        key, equals, value = word.partition("=")
        if equals:
            places[{"from": "source"}.get(key, key)] = int(value)
        else:
            how |= _HOW[word]
    fails: dict[str, int] = {}
    if row.fails == "size":
        fails = {"fails_as": places["size"]}
    elif row.fails.startswith("-"):
        fails = {"error": -int(getattr(errno, row.fails[1:]))}
    failing = bool(row.fails)
    kind = _KINDS[row.what]
    return KnownFunction(name, address, kind, how, fails=failing, **places, **fails)
