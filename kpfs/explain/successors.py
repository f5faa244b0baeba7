# SPDX-License-Identifier: GPL-2.0-or-later
"""The fate of a function of one kernel in another one.

A function that the other kernel lacks is looked for among those that the first one
lacks: by prototype, by who calls it and whom it calls, by where it lies and by name.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kpfs.linux.memory.functions import FunctionIndex, source_name

RENAMED = Path(__file__).with_name("renamed.tsv")
NEAR = 4  # functions on each side are neighbours
BUSY = 100  # callers of a function that tell nothing of those that it calls
SURE, LIKELY = 0.65, 0.5  # share of the points that a match can have
POINTS = {"prototype": 3.0, "callers": 3.0, "callees": 2.0, "place": 1.0, "name": 2.0}
PART = ".part."  # in the name of a function's rest, whose begin is inlined
MOST_NAMED = 3  # functions in a sentence


class Successor(NamedTuple):
    """A function that may have come in the place of another one."""

    name: str
    share: float  # how many of all points
    reasons: list[str]  # what is the same

    @property
    def is_sure(self) -> bool:
        return self.share >= SURE


class Renamed(NamedTuple):
    """A row of renamed.tsv: what the comparison of kernels does not find."""

    name: str
    successor: str
    since: str  # release
    source: str


@cache
def renamed() -> dict[str, Renamed]:
    with RENAMED.open(newline="", encoding="utf-8") as lines:
        rows = csv.reader(lines, delimiter="\t")
        return {row[0]: Renamed(*row) for row in rows if not row[0].startswith("#")}


def find_successor(
    name: str, old: FunctionIndex, new: FunctionIndex
) -> Successor | None:
    """Return the function of new that has come for one of old; None: none is likely."""
    candidates = {
        each
        for each in _candidates(name, old, new)
        if each not in old and source_name(each) not in old
    }
    own = _Traits.of(name, old)
    found = [_compare(own, each, new) for each in sorted(candidates)]
    best = max(found, key=lambda each: each.share, default=None)
    return best if best is not None and best.share >= LIKELY else None


def _candidates(name: str, old: FunctionIndex, new: FunctionIndex) -> Iterable[str]:
    for caller in old.callers(name):
        yield from new.callees(caller)
    for callee in old.callees(name):
        callers = new.callers(callee)
        if len(callers) <= BUSY:
            yield from callers
    for each in old.around(name, NEAR):
        if each in new:
            yield from new.around(each, NEAR)


class _Traits(NamedTuple):
    """Traits by which functions of two kernels are compared."""

    name: str
    prototype: str
    callers: set[str]  # their names in the source
    callees: set[str]
    near: list[str]

    @classmethod
    def of(cls, name: str, index: FunctionIndex) -> _Traits:
        return cls(
            name,
            index.prototype(name),
            {*map(source_name, index.callers(name))},
            {*map(source_name, index.callees(name))},
            index.around(name, NEAR),
        )


def _compare(own: _Traits, other: str, new: FunctionIndex) -> Successor:
    others = _Traits.of(other, new)
    near = {*own.near}.intersection(others.near)
    names = SequenceMatcher(None, own.name, source_name(other))
    same = {
        "prototype": float(own.prototype == others.prototype != ""),
        "callers": _shared(own.callers, others.callers),
        "callees": _shared(own.callees, others.callees),
        "place": len(near) / (2 * NEAR),
        "name": names.ratio(),
    }
    points = sum(POINTS[what] * share for what, share in same.items())
    reasons = [what for what, share in same.items() if share >= LIKELY]
    return Successor(other, points / sum(POINTS.values()), reasons)


def _shared(some: set[str], others: set[str]) -> float:
    both = len(some & others)
    return both / max(len(some) + len(others) - both, 1)


def inlined_in(name: str, old: FunctionIndex, new: FunctionIndex) -> list[str]:
    """Return callers of a function in old that new has, where they call it no more.

    They call a part of it there (NAME.part.0), or most of what it called in old.
    """
    made = new.made_of(name)
    parts = {each for each in made if PART in each}
    whole = {name, *made} - parts
    calling = set[str]().union(*map(new.callers, whole))
    passing = [each for each in old.callers(name) - calling if each in new]
    if not passing:
        return []
    callees = {
        each
        for each in map(source_name, old.callees(name))
        if each != source_name(name) and len(new.callers(each)) <= BUSY
    }
    found = []
    for caller in sorted(passing, key=by_plainness):
        called = new.callees(caller)
        # in old it calls them by this function alone
        moved = callees.difference(map(source_name, old.callees(caller)))
        now = moved.intersection(map(source_name, called))
        if called & parts or 2 * len(now) >= len(moved) > 0:
            found.append(caller)
    return found


def by_plainness(name: str) -> tuple[bool, str]:
    """Sort names by this: wrappers of system calls and helpers come last."""
    return name.startswith("__"), name


def in_words(names: list[str]) -> str:
    """Return the first of some names, and how many more there are."""
    more = len(names) - MOST_NAMED
    listed = ", ".join(names[:MOST_NAMED])
    return f"{listed} and {more} more" if more > 0 else listed
