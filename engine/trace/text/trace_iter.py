# SPDX-License-Identifier: GPL-2.0-or-later
"""The text of the files trace and snapshot, made as far as it is asked for.

To make all of it at open, or each line under the kernel's lock, would keep everybody
else waiting.  So take() copies some pages with the lock, and make() makes their text
without it: that depends on nothing but the names of events, symbols, tasks and options,
which Lines remembers, and current() compares with the lock.

Invariants: One record is taken ahead, with a copy of its bytes, and is shown even if
its page is overwritten meanwhile.  An iterator is used by one thread at a time; Lines,
pages and blocks, which many share, are only added to without the lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import chain
from typing import NamedTuple

from kpfs.engine.trace.array.trace_array import TraceArray
from kpfs.engine.trace.ring.cpu_ring import CopiedPage, CpuRing, entries
from kpfs.engine.trace.ring.ring_iter import RingIter, RingPlace
from kpfs.engine.trace.text.blocks import Block, RecordPlace, Sources, blocks
from kpfs.engine.trace.text.lines import Lines, SharedLines

PAGE_TEXT = 1 << 13  # characters that a page is taken to have
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
    tr: TraceArray,
    rings: Sequence[CpuRing] | None = None,
    skipped: Mapping[int, int] | None = None,
) -> str:
    """Return the comment lines of trace.  Kernel: trace_default_header()

    skipped: how many entries of a CPU are not shown; its losses do not count then.
    """
    rings, skipped = rings or tr.ring.cpus, skipped or {}
    text = _HEADER.format(tracer=tr.current_tracer)
    if not tr.options["context-info"]:
        return text
    entries = sum(ring.entries for ring in rings) - sum(skipped.values())
    lost = sum(ring.overrun for ring in rings if not skipped.get(ring.cpu))
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


class CopiedPages(NamedTuple):
    """Copies of pages of some CPUs, in the order of the iterators."""

    pages: list[list[CopiedPage]]
    whole: set[int]  # iterators that have nothing behind them
    lines: Lines
    state: object  # state of the rings; None: what follows is not to be noted
    # blocks that others have read, and from which record on; there are no pages then
    known: Sequence[tuple[Block, int]] = ()


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
        gives the text to show if there is no record.  shared: the lines of all readers.
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
        self._shared.keep()

    def copy(self) -> TraceIterator:
        """Return an independent iterator at this place, which must not be closed."""
        other: TraceIterator = object.__new__(TraceIterator)
        vars(other).update(vars(self))
        other._iters = [it.copy() for it in self._iters]
        other._started = set(self._started)
        other._text = self._text.copy()
        return other

    def restart(self) -> None:
        """Go to the begin, with the oldest records that there are now."""
        start = 0 if self._snapshot is not None else self._tr.ring.time_start
        self._iters = [RingIter(ring) for ring in self._rings]
        self._skipped = {
            it.ring.cpu: it.skip_before(start) for it in self._iters if start
        }
        self._index = -1  # index of the newest record that was taken from its ring
        self._ahead: Ahead | None = None
        self._text = _Text()  # made, and not read yet
        self._begun = False  # the header has been read
        # the block that was read last, and up to where
        self._begun_block: tuple[Block, int] | None = None
        self._previous: Block | None = None  # one that was read to its end just now
        self.state = self._state()

    def _state(self) -> list[tuple[CpuRing, int, int]]:
        return [it.state() for it in self._iters]

    def fits(self) -> bool:
        """Return True if nothing was cleared or consumed since the last take()."""
        return self.state == self._state()

    # ---- reading

    def read(self, count: int, *, ready: bool = False) -> str:
        """Return the next count characters, or as many as there are.

        ready: if there is text that has been made already, no more than that.
        """
        return self.read_bytes(count, ready=ready).decode("latin-1")

    def read_bytes(self, count: int, *, ready: bool = False) -> bytes:
        """Read the text as bytes."""
        size = self._text.size
        if (size < count and not (ready and size)) or not self._begun:
            if not self._begun:
                self._text.put_first(self._header())
                self._begun = True
            while self.make(self.take(count), count):
                pass
        return self._text.cut(count)

    def left_by(self, pid: int) -> bool:
        """Return True if the few records that are left, if any, are all of one task."""
        if self._text.size or self._ahead is not None:
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
            elif self._text.size >= count:
                return
            taken = self.take(count)
        while self.make(taken, count):
            with lock:
                taken = self.take(count)

    def take(self, count: int) -> CopiedPages:
        """Take the pages that a text of count characters is likely to need.

        That is blocks which others have read, or copies of pages.
        """
        self.state = self._state()
        if self._lines is None or not self._lines.current():
            self._lines = self._shared.get(self._tr, self._in_ns)
            self._begun_block = None
        needed = max(count - self._text.size, 0)
        if self._begun_block and (known := self._known(*self._begun_block, needed)):
            return CopiedPages([], set(), self._lines, None, known)
        limit = needed // (PAGE_TEXT * max(len(self._iters), 1)) + 2
        found = [it.pages(limit) for it in self._iters]
        whole = {i for i, (_, all_of_it) in enumerate(found) if all_of_it}
        # of records with the same time, one that comes later may have to stand earlier
        state = self.state if self._in_ns else None
        return CopiedPages([pages for pages, _ in found], whole, self._lines, state)

    def _known(self, block: Block, number: int, count: int) -> list[tuple[Block, int]]:
        """Blocks that follow and that others have read, up to as many as are needed.

        They begin with the record that was taken ahead.
        """
        ahead = self._ahead
        if ahead is None or ahead.missed or not all(it.stands() for it in self._iters):
            return []
        noted = self._to_be_noted()
        if any(block.find(source, number - 1) >= 0 for source in noted):
            return []
        found = [(block, number - 1)]
        size = block.behind(number - 1)
        places = [it.place() for it in self._iters]
        while size <= count:
            for source, place in block.ends:
                places[source] = place
            following = block.following(self.state, places)
            if following is None:
                break
            if noted and any(source in noted for source, _ in following.ends):
                break
            block = following
            found.append((block, 0))
            size += block.size
        return found

    def make(self, taken: CopiedPages, count: int) -> bool:
        """Go on until there are count characters and one record more.

        False: that has been done, or there are no more records.
        Context: any; nobody else may use this iterator.
        """
        if taken.known:
            self._add_known(taken.known, count)
            return self._ahead is None
        lines = taken.lines
        ahead = self._ahead
        if ahead is not None and self._text.size < count:
            self._ahead = None
            line = lines.alone(ahead.ts, ahead.cpu, ahead.data)
            self._text.add_str(self._notes(ahead.cpu, ahead.number, ahead.missed))
            self._text.add_str(line)
        if self._ahead is None:
            self._add(taken, count)
        return self._ahead is None and len(taken.whole) < len(self._iters)

    def _add_known(self, known: Sequence[tuple[Block, int]], count: int) -> None:
        """Add lines that others have made, and take one record ahead."""
        text = self._text
        ends: dict[int, RingPlace] = {}
        lasts: list[tuple[int, RecordPlace]] = []
        self._ahead = self._begun_block = None
        self._previous = known[-1][0]
        self._index -= 1  # the one that was ahead
        for block, first in known:
            last = first
            if text.size < count:
                last = block.up_to(first, count - text.size)
                text.add(block.text(first, last))
                self._index += last - first
            if last < block.count:
                self._look_ahead(block.at(last))
                last += 1
                self._begun_block, self._previous = (block, last), None
                lasts = block.lasts(first, last)
            else:
                ends |= block.ends
        for source, place in ends.items():
            self._iters[source].advance(*place)
        for _, end in lasts:
            self._go_behind(end)

    def _add(self, taken: CopiedPages, count: int) -> None:
        """Add lines as long as there is room, and take one record ahead."""
        cpus = [it.ring.cpu for it in self._iters]
        lines = taken.lines
        sources = Sources(
            taken.pages, taken.whole, lambda i, page: lines.records(cpus[i], page)
        )
        lasts: dict[int, RecordPlace] = {}
        previous, self._previous = self._previous, None
        places = [it.place() for it in self._iters]
        begun, self._begun_block = self._begun_block, None
        for block, begin in blocks(sources, partial(lines.block, cpus), begun):
            if previous and taken.state:
                previous.link(block, taken.state, places.copy())
            previous, first = block, begin
            while first < block.count and self._text.size < count:
                first = self._add_some(block, first, count)
            if first < block.count:
                self._look_ahead(block.at(first))
                first += 1
            lasts |= {last.source: last for _, last in block.lasts(begin, first)}
            if self._ahead is not None:
                self._begun_block = block, first
                break
            for source, place in block.ends:
                places[source] = place
        if self._ahead is None and len(taken.whole) < len(self._iters):
            self._previous = previous
        for last in lasts.values():
            self._go_behind(last)

    def _go_behind(self, last: RecordPlace) -> None:
        """The record is read."""
        page, stamp = last.records.page, last.records.stamp
        self._iters[last.source].advance(page, stamp, last.stop, last.time)

    def _add_some(self, block: Block, first: int, count: int) -> int:
        """Add lines up to where something is to be said; returns one behind."""
        text, note, behind = self._text, "", block.count
        for source in self._to_be_noted():
            at = block.find(source, first)
            if at == first:
                it = self._iters[source]
                note = self._notes(it.ring.cpu, self._index + 1, it.missed)
                it.missed = False
            elif at > first:
                behind = min(behind, at)
        text.add_str(note)
        last = min(block.up_to(first, count - text.size), behind)
        text.add(block.text(first, last))
        self._index += last - first
        return last

    def _to_be_noted(self) -> list[int]:
        """Return the sources before whose next record something is to be said."""
        told = self._started.union(cpu for cpu, n in self._skipped.items() if n)
        annotates = self._annotates()
        return [
            source
            for source, it in enumerate(self._iters)
            if it.missed or (annotates and it.ring.cpu not in told)
        ]

    def _look_ahead(self, place: RecordPlace) -> None:
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
        return trace_header(self._tr, self._tr.ring.spare)

    def _annotates(self) -> bool:
        return self._overrun and self._tr.options["annotate"]

    def _notes(self, cpu: int, index: int, missed: bool) -> str:
        """Return what is said before a record.  Kernel: test_cpu_buff_start()"""
        text = f"CPU:{cpu} [LOST EVENTS]\n" if missed else ""
        if not self._annotates() or cpu in self._started or self._skipped.get(cpu):
            return text
        self._started.add(cpu)
        return text + (f"##### CPU {cpu} buffer started ####\n" if index > 1 else "")


def trace_text(
    tr: TraceArray, cpu: int | None = None, snapshot: Callable[[], str] | None = None
) -> str:
    """Return the whole text as it stands."""
    iterator = TraceIterator(tr, cpu, snapshot)
    try:
        return iterator.read(ALL)
    finally:
        iterator.close()


class _Text:
    """Pieces of text, not copied before somebody reads them."""

    __slots__ = ("_pieces", "size")

    def __init__(self, *pieces: bytes | memoryview) -> None:
        self._pieces = list(pieces)
        self.size = sum(map(len, pieces))

    def copy(self) -> _Text:
        """Return an independent copy."""
        return _Text(*self._pieces)

    def add(self, piece: bytes | memoryview) -> None:
        self._pieces.append(piece)
        self.size += len(piece)

    def add_str(self, piece: str) -> None:
        if piece:
            self.add(piece.encode("latin-1"))

    def put_first(self, piece: str) -> None:
        self._pieces.insert(0, piece.encode("latin-1"))
        self.size += len(piece)

    def cut(self, count: int) -> bytes:
        """Take out the first count bytes, or all if there are not so many."""
        left: list[bytes | memoryview] = []
        while self.size > count:
            piece = self._pieces.pop()
            self.size -= len(piece)
            if self.size < count:
                kept = count - self.size
                self._pieces.append(piece[:kept])
                self.size = count
                piece = piece[kept:]
            left.append(bytes(piece))  # no view, which would keep all of its block
        found = b"".join(self._pieces)
        self._pieces, self.size = left[::-1], sum(map(len, left))
        return found
