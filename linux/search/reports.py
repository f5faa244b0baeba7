# SPDX-License-Identifier: GPL-2.0-or-later
"""Reports of what the checks of a run have found, in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kpfs.base import abi
from kpfs.linux.search.hold import Party
from kpfs.linux.search.plan import CHECKS, RACE

if TYPE_CHECKING:
    from kpfs.linux.search.hold import Holds
    from kpfs.linux.search.texts import FindingRow, Texts

_ENTRIES = "do_syscall_64", "el0_svc", "do_trap_ecall_u", "ret_from_fork"
_DEEPEST = 8  # functions of a stack that are told
_ORDER = re.compile(r"taken at (\S+).* and takes \S+ at (\S+)")


class CheckReport(NamedTuple):
    """Something wrong that a check has seen in a run."""

    kind: str  # one of plan.KINDS
    title: str
    lines: Sequence[str]
    key: Sequence[str]  # the same for all reports of one fault
    places: Sequence[str] = ()  # FUNCTION+OFFSET [MODULE] of what it is about


class RacePair(NamedTuple):
    """Two accesses that race, by their addresses."""

    at: int
    other: int


def pairs(texts: Texts) -> Iterator[RacePair]:
    """Yield the pairs that have raced, told or not."""
    for row in texts.findings():
        if row.kind == abi.FOUND_RACE:
            yield RacePair(row.at, row.other)
        elif row.kind == abi.FOUND_CHANGED:
            yield RacePair(row.at, 0)


def failed(texts: Texts) -> Iterator[str]:
    """Yield which calls have failed because a plan says so, and from where."""
    for row in texts.findings():
        if row.kind == abi.FOUND_FAULT:
            name = texts.place(row.a).partition("+")[0]
            yield f"{name}() fails, called at {texts.place(row.at)}"


def of(texts: Texts, holds: Holds) -> Iterator[CheckReport]:
    """Yield a report for each finding that is told."""
    for number, row in enumerate(texts.findings()):
        if make := _MAKERS.get(row.kind):
            yield make(texts, row, _near(row), holds.waiting(number))


def of_checks(told: Sequence[str]) -> Iterator[CheckReport]:
    """Yield a report for each text of a check of modules: it begins with its kind."""
    for text in told:
        title, *lines = text.split("\n")
        kind = title.partition(":")[0]
        if kind in CHECKS:
            # a circle of locks is found wherever it is closed
            orders = sorted(set(_ORDER.findall(text)))
            key = (kind, *sum(orders, ())) if orders else (title,)
            yield CheckReport(kind, title, [line.strip() for line in lines], key)


def _near(row: FindingRow) -> Party:
    """Return the task that a finding was made in."""
    name = bytes(row.comm).partition(b"\0")[0]
    return Party(row.pid, name.decode("latin-1"), [word for word in row.stack if word])


def _told(texts: Texts, cpu: int, place: str, party: Party) -> str:
    """Return a line on one side of a race: its processor, task and stack."""
    names = [place]
    for word in party.stack:
        name = texts.place(word)
        if name and name not in names:
            names.append(name)
        if name.startswith(_ENTRIES):  # what lies behind is left from earlier calls
            break
    return f"CPU {cpu}, {party.name}/{party.pid}: {' < '.join(names[:_DEEPEST])}"


def _verb(flags: int) -> str:
    both = abi.INSN_READS | abi.INSN_WRITES
    if flags & both == both:
        return "changes"
    return "writes" if flags & abi.INSN_WRITES else "reads"


def _race(texts: Texts, row: FindingRow, near: Party, far: Party) -> CheckReport:
    one, other = texts.place(row.at), texts.place(row.other)
    verbs = _verb(texts.flags_at(row.at)), _verb(row.b)
    title = f"data race: {one} {verbs[0]} what {other} {verbs[1]}"
    lines = [
        _told(texts, row.cpu, one, near),
        _told(texts, row.c, other, far),
    ]
    key = (RACE, *sorted((one, other)))
    return CheckReport(RACE, title, lines, key, (one, other))


def _changed(texts: Texts, row: FindingRow, near: Party, _far: Party) -> CheckReport:
    place = texts.place(row.at)
    title = f"data race: code elsewhere changes what {place} {_verb(row.c)}"
    lines = [
        f"it was {row.a:#x}, and is {row.b:#x} when {place} goes on",
        _told(texts, row.cpu, place, near),
    ]
    return CheckReport(RACE, title, lines, (RACE, place, "elsewhere"), (place,))


_MAKERS: dict[int, Callable[[Texts, FindingRow, Party, Party], CheckReport]] = {
    abi.FOUND_RACE: _race,
    abi.FOUND_CHANGED: _changed,
}
