# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the records of a guest kernel's trace array without consuming them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from kpfs.backends.raw import HEAD, Format, record
from kpfs.base.data_model import LITTLE_64
from kpfs.engine.trace.text.blocks import Sources, blocks
from kpfs.engine.trace.text.trace_iter import ALL, TraceIterator
from kpfs.session.records import Record, field_format

if TYPE_CHECKING:
    from kpfs.engine.trace.array.trace_array import TraceArray


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
    formats = {}
    for event in tr.events:
        fields = [field_format(*field) for field in event.fields()]
        formats[event.id] = Format(event.group, event.name, event.id, fields)
    comms: dict[int, str] = {}
    for block, _ in blocks(sources, partial(lines.block, cpus)):
        for i in range(block.count):
            place, line = block.at(i), block.lines(i, i + 1)
            cpu, data = cpus[place.source], place.records.data(place.number)
            kind, _, _, pid = LITTLE_64.struct(HEAD).unpack_from(data)
            if kind not in formats:  # the event was removed
                formats[kind] = Format("", "", kind)
            if pid not in comms:
                comms[pid] = tr.find_cmdline(pid)
            text = _behind_time(line, cpu)
            yield record(place.time, cpu, data, formats, comms, LITTLE_64, text)


def _behind_time(line: str, cpu: int) -> str:
    """Return the part of a line of trace that the event itself prints."""
    before, mark, rest = line.partition(f" [{cpu:03d}] ")
    text = rest.partition(": ")[2] if mark and before else line
    return text.rstrip("\n")
