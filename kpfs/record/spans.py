# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls in a trace: the record of an entry, and that of the return from it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kpfs.session.records import Record, Value

Call = tuple[str, Value]  # names a call: what kind it is, and its function or number


class Span(NamedTuple):
    """A record by itself, or the records of a call's entry and return."""

    begin: Record
    end: Record | None = None


def spans(records: Iterable[Record]) -> Iterator[Span]:
    """Pair entries with returns; yield all records in the order of their begins.

    A return belongs to the last entry of the same call in the same task. Calls nest, so
    entries that have come since then have lost their returns, and stand by themselves.
    """
    ordered = list(records)
    ends: dict[int, Record] = {}  # by where the entry stands
    returns: set[int] = set()
    stacks: defaultdict[int, list[tuple[Call, int]]] = defaultdict(list)
    for number, record in enumerate(ordered):
        stack = stacks[record.pid]
        if call := _entered(record):
            stack.append((call, number))
        elif call := _returned(record):
            depth = max((i for i, (c, _) in enumerate(stack) if c == call), default=-1)
            if depth >= 0:
                ends[stack[depth][1]] = record
                returns.add(number)
                del stack[depth:]
    for number, record in enumerate(ordered):
        if number not in returns:
            yield Span(record, ends.get(number))


def _entered(record: Record) -> Call | None:
    fields = record.fields
    if record.group == "syscalls" and record.event.startswith("sys_enter_"):
        return "syscalls", record.event.removeprefix("sys_enter_")
    if record.group == "raw_syscalls" and record.event == "sys_enter":
        return "raw_syscalls", fields["id"]
    # at an entry or within the function; then no return has this address
    return ("function", fields["__probe_ip"]) if "__probe_ip" in fields else None


def _returned(record: Record) -> Call | None:
    fields = record.fields
    if record.group == "syscalls" and record.event.startswith("sys_exit_"):
        return "syscalls", record.event.removeprefix("sys_exit_")
    if record.group == "raw_syscalls" and record.event == "sys_exit":
        return "raw_syscalls", fields["id"]
    return ("function", fields["__probe_func"]) if "__probe_func" in fields else None
