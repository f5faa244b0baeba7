# SPDX-License-Identifier: GPL-2.0-or-later
"""The text of the files trace and snapshot, made as far as it is asked for.

A read takes copies of some pages under the kernel's lock.  The text of their records
can be made without it: it depends on nothing but what the names of events, symbols,
tasks and options are at that time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from itertools import chain
from typing import NamedTuple

from kpfs.engine.trace.array.trace_array import TraceArray
from kpfs.engine.trace.ring.cpu_ring import PAGE_SIZE, Page, entries
from kpfs.engine.trace.ring.ring_buffer import Rings
from kpfs.engine.trace.ring.ring_iter import RingIter
from kpfs.engine.trace.text.blocks import Block, Place, Sources, blocks
from kpfs.engine.trace.text.lines import Lines, SharedLines

ALL = 1 << 40  # characters, more than any trace has
_PID_AT = 4  # in a record.  Kernel: struct trace_entry
_HEADER = """\
# tracer: {tracer}
#
"""
_ENTRIES = """\
# entries-in-buffer/entries-written: {entries}/{written}   #P:{cpus}
#
"""
_COLUMNS_IRQ = """\
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
"""
_COLUMNS = """\
#           TASK-PID     CPU#     TIMESTAMP  FUNCTION
#              | |         |         |         |
"""


def trace_header(
    tr: TraceArray, rings: Rings | None = None, skipped: Mapping[int, int] | None = None
) -> str:
    """The comment lines of trace.  Kernel: trace_default_header()

    skipped: how many entries of a CPU are not shown; its losses do not count then.
    """
    ring, skipped = rings or tr.ring, skipped or {}
    text = _HEADER.format(tracer=tr.current_tracer)
    if not tr.options["context-info"]:
        return text
    entries = ring.entries - sum(skipped.values())
    lost = sum(r.overrun for r in ring.cpus if not skipped.get(r.cpu))
    text += _ENTRIES.format(
        entries=entries, written=entries + lost, cpus=tr.st.machine.nr_cpus
    )
    return text + (_COLUMNS_IRQ if tr.options["irq-info"] else _COLUMNS)


class Ahead(NamedTuple):
    """A record that was taken from its ring and has not been shown yet."""

    ts: int
    cpu: int
    number: int  # how many came before it
    missed: bool  # others were lost before it
    data: bytes


class Taken(NamedTuple):
    """Copies of pages of some CPUs, in the order of the iterators."""

    pages: list[list[Page]]
    whole: set[int]  # iterators that have nothing behind them
    lines: Lines


class TraceIterator:
    """A place in the text of trace or snapshot.  Kernel: struct trace_iterator

    Context: control, but where it says otherwise.
    """

    def __init__(
        self,
        tr: TraceArray,
        cpu: int | None = None,
        snapshot: Callable[[], str] | None = None,
        shared: SharedLines | None = None,
    ) -> None:
        """Begin to read; the rings keep their size until close().

        cpu: the only CPU to read, None: all.  snapshot: read what a snapshot has; it
        gives the text to show if there is no record.  shared: what others use, too, who
        read the same.
        """
        self._tr = tr
        self._cpu = cpu
        self._snapshot = snapshot
        rings = tr.ring.cpus if snapshot is None else tr.ring.spare_rings()
        self._rings = [ring for ring in rings if cpu in (None, ring.cpu)]
        for ring in self._rings:
            ring.begin_reading()
        self._idle = not self._rings
        tr.ring.idle_readers += self._idle
        # as it was when the file was opened
        self._overrun = any(ring.overrun for ring in rings)
        self._in_ns = tr.ring.in_ns
        self._shared = shared or SharedLines()
        self._lines: Lines | None = None
        self._started: set[int] = set()  # CPUs whose first record has been shown
        self._iters: list[RingIter] = []
        self.restart()

    def close(self) -> None:
        """End reading."""
        for ring in self._rings:
            ring.end_reading()
        self._tr.ring.idle_readers -= self._idle

    def copy(self) -> TraceIterator:
        """One at the same place, which goes on by itself; it is not to be closed."""
        other: TraceIterator = object.__new__(TraceIterator)
        vars(other).update(vars(self))
        other._iters = [it.copy() for it in self._iters]
        other._started = set(self._started)
        return other

    def restart(self) -> None:
        """Go to the begin, with the oldest records that there are now."""
        start = 0 if self._snapshot is not None else self._tr.ring.time_start
        self._iters = [RingIter(ring) for ring in self._rings]
        self._skipped = {
            it.ring.cpu: it.skip_before(start) for it in self._iters if start
        }
        self._index = -1  # of the newest record that was taken from its ring
        self._ahead: Ahead | None = None
        self._text = ""  # made, and not read yet
        self._begun = False  # the header has been read
        # the block that was read last, and up to where
        self._begun_block: tuple[Block, int] | None = None
        self.state = self._state()

    def _state(self) -> list[tuple[int, int]]:
        return [it.state() for it in self._iters]

    def fits(self) -> bool:
        """Whether nothing was cleared or consumed since the last take()."""
        return self.state == self._state()

    # ---- reading

    def read(self, count: int, *, ready: bool = False) -> str:
        """The next count characters, or as many as there are.

        ready: if there is text that has been made already, no more than that.
        """
        if (len(self._text) < count and not (ready and self._text)) or not self._begun:
            if not self._begun:
                self._text, self._begun = self._header() + self._text, True
            while self.make(self.take(count), count):
                pass
        text, self._text = self._text[:count], self._text[count:]
        return text

    def left_by(self, pid: int) -> bool:
        """Whether the few records that are left, if any, are all of one task."""
        if self._text or self._ahead is not None:
            return False
        taken = self.take(1)
        if len(taken.whole) < len(self._iters):
            return False
        for page in chain(*taken.pages):
            for _, start, _ in entries(page.words(), page.first, page.end, page.ts):
                at = 4 * start + _PID_AT
                if int.from_bytes(page.data[at : at + 4], "little") != pid:
                    return False
        return True

    def prepare(self, lock: AbstractContextManager[object], count: int) -> None:
        """Make most of what read(count) will need, with the lock for short times only.

        Context: any, without the lock; nobody else may use this iterator.
        """
        with lock:
            if not self._begun:
                count = max(count - len(self._header()), 0)
            elif len(self._text) >= count:
                return
            taken = self.take(count)
        while self.make(taken, count):
            with lock:
                taken = self.take(count)

    def take(self, count: int) -> Taken:
        """Copies of as many pages as text of count characters is likely to need."""
        self.state = self._state()
        limit = max(count - len(self._text), 0) // (2 * PAGE_SIZE) + 1
        found = [it.pages(limit) for it in self._iters]
        whole = {i for i, (_, all_of_it) in enumerate(found) if all_of_it}
        if self._lines is None or not self._lines.current():
            self._lines = self._shared.get(self._tr, self._in_ns)
        return Taken([pages for pages, _ in found], whole, self._lines)

    def make(self, taken: Taken, count: int) -> bool:
        """Go on until there are count characters and one record more.

        False: that has been done, or there are no more records.
        Context: any; nobody else may use this iterator.
        """
        text = _Text(self._text, count)
        lines = taken.lines
        ahead = self._ahead
        if ahead is not None and not text.full:
            self._ahead = None
            line = lines.alone(ahead.ts, ahead.cpu, ahead.data)
            text.add(self._notes(ahead.cpu, ahead.number, ahead.missed) + line)
        if self._ahead is None:
            self._add(text, taken)
        self._text = text.whole()
        return self._ahead is None and len(taken.whole) < len(self._iters)

    def _add(self, text: _Text, taken: Taken) -> None:
        """Add lines as long as there is room, and take one record ahead."""
        cpus = [it.ring.cpu for it in self._iters]
        lines = taken.lines
        sources = Sources(
            taken.pages, taken.whole, lambda i, page: lines.records(cpus[i], page)
        )
        lasts: dict[int, Place] = {}
        begun, self._begun_block = self._begun_block, None
        for block, begin in blocks(sources, partial(lines.block, cpus), begun):
            first = begin
            while first < block.count and not text.full:
                first = self._add_some(text, block, first)
            if first < block.count:
                self._look_ahead(block.at(first))
                first += 1
            lasts |= {last.source: last for _, last in block.lasts(begin, first)}
            if self._ahead is not None:
                self._begun_block = block, first
                break
        for source, last in lasts.items():
            number = last.records.page
            page = next(p for p in taken.pages[source] if p.number == number)
            self._iters[source].advance(page, last.stop, last.time)

    def _add_some(self, text: _Text, block: Block, first: int) -> int:
        """Add lines up to where something is to be said; returns one behind."""
        note, behind = "", block.count
        for source in self._to_be_noted():
            at = block.find(source, first)
            if at == first:
                it = self._iters[source]
                note = self._notes(it.ring.cpu, self._index + 1, it.missed)
                it.missed = False
            elif at > first:
                behind = min(behind, at)
        last = min(block.up_to(first, text.room - len(note)), behind)
        text.add(note + block.lines(first, last))
        self._index += last - first
        return last

    def _to_be_noted(self) -> list[int]:
        """The sources before whose next record something is to be said."""
        told = self._started.union(cpu for cpu, n in self._skipped.items() if n)
        annotates = self._annotates()
        return [
            source
            for source, it in enumerate(self._iters)
            if it.missed or (annotates and it.ring.cpu not in told)
        ]

    def _look_ahead(self, place: Place) -> None:
        """Keep the next record, which is not to be shown yet.  Kernel: iter->ent"""
        it = self._iters[place.source]
        data = place.records.data(place.number)
        self._index += 1
        self._ahead = Ahead(place.time, it.ring.cpu, self._index, it.missed, data)
        it.missed = False

    # ---- what is not a record

    def _header(self) -> str:
        if self._snapshot is None:
            return trace_header(self._tr, None, self._skipped)
        if not any(ring.entries for ring in self._rings):
            return self._snapshot()
        return trace_header(self._tr, self._tr.ring.snapshot())

    def _annotates(self) -> bool:
        return self._overrun and self._tr.options["annotate"]

    def _notes(self, cpu: int, index: int, missed: bool) -> str:
        """What is said before a record.  Kernel: test_cpu_buff_start()"""
        text = f"CPU:{cpu} [LOST EVENTS]\n" if missed else ""
        if not self._annotates() or cpu in self._started or self._skipped.get(cpu):
            return text
        self._started.add(cpu)
        return text + (f"##### CPU {cpu} buffer started ####\n" if index > 1 else "")


def trace_text(
    tr: TraceArray, cpu: int | None = None, snapshot: Callable[[], str] | None = None
) -> str:
    """All of it, as it stands.  Context: control."""
    iterator = TraceIterator(tr, cpu, snapshot)
    try:
        return iterator.read(ALL)
    finally:
        iterator.close()


class _Text:
    """Text that is made until there is enough of it."""

    def __init__(self, begin: str, count: int) -> None:
        self._pieces = [begin]
        self.room = count - len(begin)

    @property
    def full(self) -> bool:
        return self.room <= 0

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        self.room -= len(piece)

    def whole(self) -> str:
        return "".join(self._pieces)
