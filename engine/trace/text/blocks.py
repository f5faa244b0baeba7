# SPDX-License-Identifier: GPL-2.0-or-later
"""Merges the records of several CPUs by time into blocks, which readers share.

A trace may have a million records, and several readers that begin at different places.
A heap of the CPUs' next records would be asked for each record, and its result lost.
Instead a block is made at a time: from each CPU's current page, all records up to the
first end of such a page, sorted together, as one text with the ends of its lines.
A reader that has come to the end of a block notes which one followed, by the state of
the rings and the places it stood at; others go along these notes without looking at a
record.

Invariants: Records with equal times are in the order of their CPUs.  Nothing is merged
behind the last page of a CPU unless it is known that no page follows.  A note is used
only while the rings are in the state in which it was made.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import accumulate, repeat
from typing import NamedTuple
from weakref import ReferenceType, ref

from kpfs.engine.trace.ring.cpu_ring import (
    BUF_PAGE_HDR_SIZE,
    HEADER_WORDS,
    PAGE_SIZE,
    CopiedPage,
    Record,
)
from kpfs.engine.trace.ring.ring_iter import RingPlace
from kpfs.engine.trace.text.page_records import PageRecords


class RecordPlace(NamedTuple):
    """A record of a source, which is a CPU that is read, by its number on a page."""

    source: int
    records: PageRecords
    number: int

    @property
    def time(self) -> int:
        return self.records.times[self.number]

    @property
    def stop(self) -> int:
        """The word of the page where it ends."""
        return HEADER_WORDS + self.records.stops[self.number] // 4

    def entry(self, cpu: int) -> Record:
        """Return the record in the form that the ring of a CPU has."""
        records, number = self.records, self.number
        base = records.page * PAGE_SIZE + BUF_PAGE_HDR_SIZE
        start, stop = records.starts[number], records.stops[number]
        return records.times[number], cpu, base + start, base + stop


class SourceRecords(NamedTuple):
    """Records of one page of a source."""

    source: int
    records: PageRecords
    first: int
    last: int  # one behind

    @property
    def end(self) -> RingPlace:
        """The position of a RingIter that has read it."""
        records, number = self.records, self.last - 1
        word = HEADER_WORDS + records.stops[number] // 4
        return records.page, records.stamp, word, records.times[number]

    def same(self, other: SourceRecords) -> bool:
        return (
            self.records is other.records
            and self.first == other.first
            and self.last == other.last
        )


class Block:
    """Records that follow one another in the trace, by their number in it."""

    def __init__(
        self,
        parts: Sequence[SourceRecords],
        lines: Callable[[SourceRecords], list[str]],
    ) -> None:
        """parts: those of all sources that have some.  lines: makes their text."""
        self.parts = parts
        made: list[str] = []
        if len(parts) == 1:
            made = lines(parts[0])
            self._sources = bytes([parts[0].source]) * len(made)
        else:
            found: list[tuple[int, int, int, str]] = []
            for part in parts:
                source, records, first, last = part
                times, numbers = records.times[first:last], range(first, last)
                found += zip(times, repeat(source), numbers, lines(part), strict=False)
            found.sort()
            made = [line for _, _, _, line in found]
            self._sources = bytes([source for _, source, _, _ in found])
        self.count = len(made)
        self._ends = array("I", accumulate(map(len, made)))
        self._text = "".join(made).encode("latin-1")
        self.size = len(self._text)
        self.ends = [(part.source, part.end) for part in parts]
        self._following: tuple[object, list[RingPlace], ReferenceType[Block]] | None
        self._following = None

    def up_to(self, first: int, size: int) -> int:
        """Return the number behind the record that brings the text to such a size.

        At least one record; all if there is not so much text.
        """
        size += self._begin(first)
        return min(bisect_left(self._ends, size, first) + 1, self.count)

    def lines(self, first: int, last: int) -> str:
        """Return the lines of some records; last: one behind."""
        return str(self.text(first, last), "latin-1")

    def text(self, first: int, last: int) -> memoryview:
        """Return the lines as bytes, without a copy."""
        return memoryview(self._text)[self._begin(first) : self._begin(last)]

    def behind(self, number: int) -> int:
        """Return the size of the text from a record on."""
        return self.size - self._begin(number)

    def _begin(self, number: int) -> int:
        return self._ends[number - 1] if number else 0

    def link(self, following: Block, state: object, places: list[RingPlace]) -> None:
        """Note what followed for a reader at these places of the rings."""
        self._following = state, places, ref(following)

    def following(self, state: object, places: list[RingPlace]) -> Block | None:
        """Return the block that follows for a reader at these places, if it is known.

        The reader may stand elsewhere in a ring if only later records of it are left.
        """
        if not self._following or self._following[0] != state:
            return None
        _, others, noted = self._following
        block = noted()
        if block is None or places == others:
            return block
        there = {source for source, _ in block.ends}
        until = max(place[-1] for _, place in block.ends)
        for source, (place, other) in enumerate(zip(places, others, strict=True)):
            if place != other and (source in there or place[-1] <= until):
                return None
        return block

    def find(self, source: int, first: int) -> int:
        """Return the first record of a source from there on; -1: there is none."""
        return self._sources.find(source, first)

    def at(self, number: int) -> RecordPlace:
        """Return one of the records."""
        source = self._sources[number]
        part = next(part for part in self.parts if part.source == source)
        before = self._sources.count(source, 0, number)
        return RecordPlace(source, part.records, part.first + before)

    def lasts(self, first: int, last: int) -> list[tuple[int, RecordPlace]]:
        """Return for each source how many of some records it has, and the last one."""
        found = []
        for source, records, begin, _ in self.parts:
            behind = self._sources.count(source, 0, last)
            count = self._sources.count(source, first, last)
            if count:
                found.append((count, RecordPlace(source, records, begin + behind - 1)))
        return found

    def left(self, number: int) -> list[SourceRecords]:
        """Return what the parts have from a record on."""
        found = []
        for source, records, first, last in self.parts:
            first += self._sources.count(source, 0, number)
            if first < last:
                found.append(SourceRecords(source, records, first, last))
        return found


class Sources:
    """The pages to be read of some CPUs."""

    def __init__(
        self,
        pages: Sequence[Iterable[CopiedPage]],
        whole: Collection[int],
        records: Callable[[int, CopiedPage], PageRecords],
    ) -> None:
        """pages: of each source, from the record at page.first of each page on.

        whole: the sources behind whose end there is nothing.
        records: finds those of a page of a source.
        """
        self._pages = [iter(some) for some in pages]
        self._whole = whole
        self._records = records
        self._heads: list[SourceRecords | None] = [None] * len(pages)
        self._ended = False
        for source in range(len(pages)):
            self._turn_page(source)

    def _turn_page(self, source: int) -> None:
        """Go on to the next page that has something to read."""
        self._heads[source] = None
        for page in self._pages[source]:
            records = self._records(source, page)
            place = 4 * page.first - BUF_PAGE_HDR_SIZE
            first = bisect_right(records.stops, place)
            if first < len(records.stops):
                last = len(records.stops)
                self._heads[source] = SourceRecords(source, records, first, last)
                return
        if source not in self._whole:  # the next block may be there already
            self._ended = True

    def following(self) -> list[SourceRecords]:
        """Return the parts that come first, up to where one of the pages ends.

        Of records with the same time, those of the earlier source come first.
        """
        heads = [head for head in self._heads if head]
        if self._ended or len(heads) < 2:
            return [] if self._ended else heads
        until, source = min((head.records.times[-1], head.source) for head in heads)
        found = []
        for head in heads:
            bisect = bisect_right if head.source <= source else bisect_left
            last = bisect(head.records.times, until, head.first)
            if last > head.first:
                found.append(head._replace(last=last))
        return found

    def go_on(self, parts: Iterable[SourceRecords]) -> None:
        """These are read."""
        for source, records, _, last in parts:
            if last == len(records.stops):
                self._turn_page(source)
            else:
                head = self._heads[source]
                assert head
                self._heads[source] = head._replace(first=last)

    def stands(self, parts: Iterable[SourceRecords]) -> bool:
        """Return True if these are what comes next of their sources."""
        for part in parts:
            head = self._heads[part.source]
            if not head or head.records is not part.records or head.first != part.first:
                return False
        return not self._ended


def blocks(
    sources: Sources,
    block: Callable[[list[SourceRecords]], Block],
    begun: tuple[Block, int] | None = None,
) -> Iterator[tuple[Block, int]]:
    """Yield all blocks, oldest first, each with the record to read it from.

    It ends where what comes next may be what is not among the pages.
    block: gives that of some parts.  begun: what was read last, and up to where.
    """
    if begun and (left := begun[0].left(begun[1])) and sources.stands(left):
        yield begun
        sources.go_on(left)
    while parts := sources.following():
        yield block(parts), 0
        sources.go_on(parts)
