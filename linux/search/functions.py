# SPDX-License-Identifier: GPL-2.0-or-later
"""The functions of a kernel that lookers know, from the table functions.tsv."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kpfs.base import abi
from kpfs.linux.running.saved_kernel import SavedKernel

_TABLE = os.path.join(os.path.dirname(__file__), "functions.tsv")
_KINDS = {
    "other": abi.FN_OTHER, "alloc": abi.FN_ALLOC, "free": abi.FN_FREE,
    "copy": abi.FN_COPY, "string": abi.FN_STRING, "lock": abi.FN_LOCK,
    "unlock": abi.FN_UNLOCK, "sleeps": abi.FN_SLEEPS, "forget": abi.FN_FORGET,
    "cache": abi.FN_CACHE, "uncache": abi.FN_UNCACHE, "size": abi.FN_SIZE,
    "free_later": abi.FN_FREE_LATER, "uses": abi.FN_USES,
}  # fmt: skip
_HOW = {
    "order": abi.HOW_ORDER, "string": abi.HOW_STRING, "array": abi.HOW_ARRAY,
    "cache": abi.HOW_CACHE, "enlarge": abi.HOW_ENLARGE, "redirect": abi.HOW_REDIRECT,
    "pages": abi.HOW_PAGES, "page": abi.HOW_PAGE, "again": abi.HOW_AGAIN,
    "reads": abi.HOW_READS,
    "joins": abi.HOW_JOINS, "formats": abi.HOW_FORMATS,
    "mutex": abi.HOW_MUTEX, "rwsem": abi.HOW_RWSEM, "spin": abi.HOW_SPIN,
    "rwlock": abi.HOW_RWLOCK, "shared": abi.HOW_SHARED, "tries": abi.HOW_TRIES,
    "fails": abi.HOW_FAILS, "raw": abi.HOW_RAW, "clears": abi.HOW_CLEARS,
    "to_user": abi.HOW_TO_USER, "list": abi.HOW_LIST,
    "irq": abi.HOW_IRQ, "bh": abi.HOW_BH, "inline": abi.HOW_INLINE,
}  # fmt: skip
_AT_ENTRY = "at_entry"


class KnownFunction(NamedTuple):
    """A function of this kernel, and how it is looked at: struct function."""

    name: str
    address: int
    kind: int  # abi.FN_*
    how: int  # abi.HOW_*
    to: int = abi.NO_ARGUMENT
    source: int = abi.NO_ARGUMENT
    size: int = abi.NO_ARGUMENT
    flags: int = abi.NO_ARGUMENT  # those of an allocation
    bytes: int = 0  # that it uses of to and source at least
    fails: bool = False
    fails_as: int = abi.NO_ARGUMENT  # the argument that it returns then
    error: int = 0
    entry_kind: int = 0  # abi.FN_*: what it does, whoever calls it


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
    one function the later ones are for where it begins, whoever calls it.
    """
    listed = list(rows())
    found: dict[int, KnownFunction] = {}
    for row in listed:
        for name in row.names:
            for each in _meant(name, returning):
                address = saved.symbols.address(each)
                if not address:
                    continue
                function = _function(row, each, address)
                first = found.get(address)
                found[address] = _merged(first, function) if first else function
    return [found[address] for address in sorted(found)]


def _meant(name: str, returning: Sequence[str]) -> Sequence[str]:
    """Return the functions that a name of the table stands for."""
    if not name.endswith("*"):
        return [name]
    return [each for each in returning if each.startswith(name[:-1])]


def _merged(first: KnownFunction, second: KnownFunction) -> KnownFunction:
    """Return a function that is looked at where it is called and where it begins."""
    if not second.entry_kind:
        return first
    return first._replace(entry_kind=second.entry_kind, to=second.to)


def _function(row: TableRow, name: str, address: int) -> KnownFunction:
    how, places = 0, dict[str, Any]()
    for word in row.how:
        key, equals, value = word.partition("=")
        if equals:
            places[{"from": "source"}.get(key, key)] = int(value)
        else:
            how |= _HOW.get(word, 0)
    error, fails_as = 0, abi.NO_ARGUMENT
    if row.fails == "size":
        fails_as = places["size"]
    elif row.fails.startswith("-"):
        error = -int(getattr(errno, row.fails[1:]))
    known = KnownFunction(name, address, _KINDS[row.what], how)._replace(**places)
    if _AT_ENTRY in row.how:
        return known._replace(kind=0, entry_kind=known.kind)
    return known._replace(fails=bool(row.fails), fails_as=fails_as, error=error)
