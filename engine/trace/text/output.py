# SPDX-License-Identifier: GPL-2.0-or-later
"""The text that is read from the file trace_pipe."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from typing import NamedTuple

from kpfs.engine.trace.array.trace_array import TraceArray
from kpfs.engine.trace.ring.cpu_ring import PAGE_SIZE, CopiedPage, CpuRing, Record
from kpfs.engine.trace.text.blocks import Block, Sources, blocks
from kpfs.engine.trace.text.lines import Lines

# The most that Linux gives per read(); here a larger read gets more whole lines
PIPE_PAGE = 4096


class TakenPages(NamedTuple):
    """Copies of the oldest pages of some rings, and how these stood then."""

    rings: list[CpuRing]
    states: list[tuple[int, int, int]]
    pages: list[list[CopiedPage]]
    whole: set[int]  # rings that have nothing behind these pages
    lost: dict[int, int]  # by CPU: records that were overwritten before
    lines: Lines

    def stands(self, rings: list[CpuRing]) -> bool:
        """Return True if no record was cleared, consumed, overwritten or swapped."""
        return all(
            rings[ring.cpu] is ring and ring.state() == state
            for ring, state in zip(self.rings, self.states, strict=True)
        )


class Made(NamedTuple):
    """Records, and their text."""

    taken: TakenPages
    room: int  # characters that were asked for
    used: dict[int, tuple[int, Record]]  # by CPU: how many, the last one
    text: str
    begun: tuple[Block, int] | None  # the last piece read, and its end


class TracePipe:
    """An open file trace_pipe.  Kernel: struct trace_iterator"""

    def __init__(self, ts: TraceArray, cpu: int | None = None) -> None:
        """cpu: the only CPU whose records are read; None: all are."""
        self._ts = ts
        self._cpu = cpu
        self._pending = ""
        self._was_read = False
        self._lines: Lines | None = None
        self._made: Made | None = None  # by prepare()
        self._begun: tuple[Block, int] | None = None  # see Made

    def _rings(self) -> Sequence[CpuRing]:
        rings = self._ts.ring.cpus
        return rings if self._cpu is None else [rings[self._cpu]]

    def ready(self) -> bool:
        """Return True if read() would give something."""
        return bool(self._pending) or any(ring.entries for ring in self._rings())

    def written(self) -> object:
        """Return a value that changes with each record that is written."""
        return [ring.written for ring in self._rings()]

    def at_end(self) -> bool:
        """Return True if a reader that finds nothing gets end of file."""
        return self._was_read and not self._ts.ring.on

    def read(self, count: int, *, whole: bool = False) -> str:
        """Up to count characters of whole lines, or of the rest of a line begun before.

        The records are taken out of the buffer.  "" means that there are none.
        whole: a first line that is longer is left for the next reader, too.
        Context: control.  Kernel: tracing_read_pipe()
        """
        made, self._made = self._made, None
        if not self._pending:
            if (
                made is None
                or whole
                or made.room != count
                or not made.taken.stands(self._ts.ring.cpus)
            ):
                made = self._make(self._take(count), count, whole=whole)
            self._pending = self._consume(made)
        text, self._pending = self._pending[:count], self._pending[count:]
        if text:
            self._was_read = True
        return text

    def prepare(self, lock: AbstractContextManager[object], count: int) -> None:
        """Make the text that read(count) will need, but take no record out.

        Context: any, without the lock, which is held for a short time.
        """
        with lock:
            if self._pending or not self.ready():
                return
            taken = self._take(count)
        self._made = self._make(taken, count)

    def _take(self, count: int) -> TakenPages:
        """Copies of as many pages as text of count characters is likely to need."""
        tr, limit = self._ts, count // (2 * PAGE_SIZE) + 1
        rings = list(self._rings())  # empty ones, too: _begun has their numbers
        found = [list(islice(ring.unread(), limit + 1)) for ring in rings]
        whole = {i for i, pages in enumerate(found) if len(pages) <= limit}
        if self._lines is None or not self._lines.current():
            self._lines = Lines(tr, kept=0)
        return TakenPages(
            rings=rings,
            states=[ring.state() for ring in rings],
            pages=[pages[:limit] for pages in found],
            whole=whole,
            lost={ring.cpu: ring.overrun - ring.overrun_seen for ring in rings},
            lines=self._lines,
        )

    def _make(self, taken: TakenPages, count: int, *, whole: bool = False) -> Made:
        """Return the lines of records for about count characters.

        whole: for no more than that, be it none.  Context: any.
        """
        used: dict[int, tuple[int, Record]] = {}
        texts: list[str] = []
        size = 0
        lost = {cpu: number for cpu, number in taken.lost.items() if number}
        cpus, lines = [ring.cpu for ring in taken.rings], taken.lines
        sources = Sources(
            taken.pages, taken.whole, lambda i, page: lines.records(cpus[i], page)
        )
        for block, first in blocks(sources, partial(lines.block, cpus), self._begun):
            while first < block.count:
                note, behind = _loss(block, first, cpus, lost)
                last = min(block.up_to(first, count - size - len(note)), behind)
                text = note + block.lines(first, last)
                full = size + len(text) >= count
                if size + len(text) > (count if whole else max(count, PIPE_PAGE)) and (
                    whole or texts or last - first > 1
                ):
                    last -= 1
                    text = note + block.lines(first, last)
                if last > first:
                    texts.append(text)
                    size += len(text)
                for number, place in block.lasts(first, last):
                    cpu = cpus[place.source]
                    number += used[cpu][0] if cpu in used else 0
                    used[cpu] = number, place.entry(cpu)
                if full:
                    begun = block, last
                    return Made(taken, count, used, "".join(texts), begun)
                first = last
        return Made(taken, count, used, "".join(texts), None)

    def _consume(self, made: Made) -> str:
        """Take the records out of the buffer; their text."""
        self._begun = made.begun
        for ring in made.taken.rings:
            if ring.cpu in made.used:
                ring.overrun_seen = ring.overrun
                ring.consume(*made.used[ring.cpu])
        return made.text


def _loss(
    block: Block, first: int, cpus: list[int], lost: dict[int, int]
) -> tuple[str, int]:
    """Return what is said before a record of a block, and before which one next.

    lost: by CPU, how many were lost before its first one; it goes once that is said.
    """
    note, behind = "", block.count
    for source in [source for source, cpu in enumerate(cpus) if cpu in lost]:
        cpu, at = cpus[source], block.find(source, first)
        if at == first:
            note = f"CPU:{cpu} [LOST {lost.pop(cpu)} EVENTS]\n"
        elif at > first:
            behind = min(behind, at)
    return note, behind
