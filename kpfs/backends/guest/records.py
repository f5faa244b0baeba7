# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the records of a guest kernel's trace array without consuming them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from kpfs.api.records import Record, decode, field_format
from kpfs.engine.trace.text.blocks import Sources, blocks
from kpfs.engine.trace.text.lines import lat_fmt
from kpfs.engine.trace.text.trace_iter import ALL, TraceIterator

if TYPE_CHECKING:
    from kpfs.engine.trace.array.trace_array import TraceArray
    from kpfs.engine.trace.event.trace_event import TraceEvent

_HEAD = struct.Struct("<HBBi")  # kernel: struct trace_entry


def records(tr: TraceArray) -> Iterator[Record]:
    """Yield the records that trace shows now, oldest first.

    Context: control, until the first record is asked for; all are copied by then.
    """
    iterator = TraceIterator(tr)
    try:
        taken = iterator.take(ALL)
    finally:
        iterator.close()
    cpus = [ring.cpu for ring in tr.ring.cpus]
    lines = taken.lines
    sources = Sources(
        taken.pages, taken.whole, lambda i, page: lines.records(cpus[i], page)
    )
    events = {event.id: _Format(event) for event in tr.events}
    comms: dict[int, str] = {}
    for block, _ in blocks(sources, partial(lines.block, cpus)):
        for i in range(block.count):
            place, line = block.at(i), block.lines(i, i + 1)
            cpu, raw = cpus[place.source], place.records.data(place.number)
            kind, flags, preempt_count, pid = _HEAD.unpack_from(raw)
            if pid not in comms:
                comms[pid] = tr.find_cmdline(pid)
            event = events.get(kind) or _GONE
            yield Record(
                timestamp=place.time,
                cpu=cpu,
                pid=pid,
                comm=comms[pid],
                flags=lat_fmt(flags, preempt_count),
                group=event.group,
                event=event.name,
                fields=decode(event.fields, raw, binary=event.name == "raw_data"),
                text=_behind_time(line, cpu),
            )


class _Format:
    """The names of an event, and the fields of its records."""

    def __init__(self, event: TraceEvent) -> None:
        self.group, self.name = event.group, event.name
        self.fields = [field_format(*field) for field in event.fields()]


class _Gone(_Format):
    """The format of records whose event was removed."""

    def __init__(self) -> None:
        self.group, self.name, self.fields = "", "", []


_GONE = _Gone()


def _behind_time(line: str, cpu: int) -> str:
    """Return the part of a line of trace that the event itself prints."""
    before, mark, rest = line.partition(f" [{cpu:03d}] ")
    text = rest.partition(": ")[2] if mark and before else line
    return text.rstrip("\n")
