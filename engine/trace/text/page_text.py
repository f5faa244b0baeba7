# SPDX-License-Identifier: GPL-2.0-or-later
"""The text of a page of records, and in which order that of several CPUs is read."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate, repeat
from typing import NamedTuple

from kpfs.engine.trace.ring.cpu_ring import PAGE_SIZE, Page, Record

# Records that follow one another are read at once.  Where they are fewer than FEW, as
# CPUs have recorded in turn, some of each CPU are sorted instead, MANY at most.
FEW, MANY = 6, 64


class PageText(NamedTuple):
    """The lines of the records that a page begins with.

    Numbers are one for each record; places are words of the page.
    """

    stamp: int  # of the page
    body: bytes  # all that is behind its header, up to the end of the last record
    times: array[int]
    starts: array[int]  # where data begin
    stops: array[int]  # and end
    ends: array[int]  # where lines end in the text
    text: str

    @classmethod
    def empty(cls, stamp: int) -> PageText:
        """That of a page which nothing was made of yet."""
        words = array("H")
        return cls(stamp, b"", array("Q"), words, words, array("I"), "")

    def begin(self, number: int) -> int:
        """Where a record's line begins."""
        return self.ends[number - 1] if number else 0

    def lines(self, first: int, last: int) -> list[str]:
        """Those of some records; last: one behind."""
        text, begin, lines = self.text, self.begin(first), []
        for end in self.ends[first:last]:
            lines.append(text[begin:end])
            begin = end
        return lines


class Place(NamedTuple):
    """A record of one of the sources."""

    source: int
    page: Page
    made: PageText
    number: int

    @property
    def time(self) -> int:
        return self.made.times[self.number]

    def data(self) -> bytes:
        """The record's data."""
        made, number = self.made, self.number
        return self.page.data[4 * made.starts[number] : 4 * made.stops[number]]

    def record(self, cpu: int) -> Record:
        """The record, as the ring of a CPU has it."""
        made, base = self.made, self.page.number * PAGE_SIZE
        start, stop = 4 * made.starts[self.number], 4 * made.stops[self.number]
        return self.time, cpu, base + start, base + stop


class Run:
    """Records of a page that follow one another in the trace, from a place on."""

    __slots__ = ("_first", "count", "source")

    def __init__(self, first: Place, count: int) -> None:
        self._first = first
        self.count = count
        self.source = first.source

    def up_to(self, size: int) -> int:
        """How many there are up to the one that brings the text to so many characters.

        At least one; all if there is not so much text.
        """
        _, _, made, first = self._first
        size += made.begin(first)
        if made.ends[first + self.count - 1] <= size:
            return self.count
        return bisect_left(made.ends, size, first, first + self.count) + 1 - first

    def text(self, count: int) -> str:
        """The lines of so many of them."""
        _, _, made, first = self._first
        return made.text[made.begin(first) : made.begin(first + count)]

    def at(self, i: int) -> Place:
        """One of them."""
        source, page, made, first = self._first
        return Place(source, page, made, first + i)

    def parts(self, count: int) -> list[tuple[int, Place]]:
        """Of each source: how many are among the first ones, and the last of these."""
        return [(count, self.at(count - 1))]


class Mixed:
    """Records of several sources that follow one another in the trace."""

    __slots__ = ("_entries", "_firsts", "count")

    def __init__(self, parts: Sequence[tuple[Place, int]]) -> None:
        """parts: from where, and how many; of each source that has some."""
        self._firsts = {first.source: first for first, _ in parts}
        self._entries: list[tuple[int, int, int, str]] = []
        for (source, _, made, first), count in parts:
            times, last = made.times[first : first + count], first + count
            numbers, lines = range(first, last), made.lines(first, last)
            self._entries += zip(times, repeat(source), numbers, lines, strict=False)
        self._entries.sort()
        self.count = len(self._entries)

    def up_to(self, size: int) -> int:
        """As of a Run."""
        ends = list(accumulate([len(entry[3]) for entry in self._entries]))
        return min(bisect_left(ends, size) + 1, self.count)

    def text(self, count: int) -> str:
        """As of a Run."""
        return "".join([entry[3] for entry in self._entries[:count]])

    def at(self, i: int) -> Place:
        """As of a Run."""
        _, source, number, _ = self._entries[i]
        return self._firsts[source]._replace(number=number)

    def parts(self, count: int) -> list[tuple[int, Place]]:
        """As of a Run."""
        lasts = {source: number for _, source, number, _ in self._entries[:count]}
        return [
            (number + 1 - first.number, first._replace(number=number))
            for source, number in lasts.items()
            for first in [self._firsts[source]]
        ]


def merged(
    sources: Sequence[Iterator[tuple[Page, PageText]]],
    whole: Collection[int],
    *,
    mix: bool = True,
) -> Iterator[Run | Mixed]:
    """The records of all sources, oldest first.

    A source gives the pages of a CPU, from the record at page.first on; of records with
    the same time, those of the earlier source come first.
    whole: the sources behind whose end there is nothing.  At the end of another one it
    ends, for what comes next may be there.  mix: False: there are only Runs.
    """
    heads = [_next_page(source, pages) for source, pages in enumerate(sources)]
    if any(head is None and source not in whole for source, head in enumerate(heads)):
        return
    order = sorted((head.time, head.source) for head in heads if head)
    while order:
        head = heads[order[0][1]]
        assert head
        count = len(head.made.times) - head.number
        if len(order) > 1:
            count = _before(head, *order[1])
        if count >= FEW or not mix or len(order) == 1:
            yield Run(head, count)
            parts = [(head, count)]
        else:
            parts = _parts([head for head in heads if head])
            yield Mixed(parts)
        for (source, page, made, number), count in parts:
            following: Place | None = Place(source, page, made, number + count)
            if number + count == len(made.times):
                following = _next_page(source, sources[source])
            if following is None and source not in whole:
                return
            heads[source] = following
        if len(parts) == 1 and following:
            order[0] = following.time, source
            order.sort()
        else:
            order = sorted((head.time, head.source) for head in heads if head)


def _next_page(source: int, pages: Iterator[tuple[Page, PageText]]) -> Place | None:
    """The next page's first record to read; None: there is none."""
    for page, made in pages:
        number = bisect_right(made.stops, page.first)
        if number < len(made.stops):
            return Place(source, page, made, number)
    return None


def _before(head: Place, until: int, source: int) -> int:
    """How many records from head on come before the next one of a source."""
    bisect = bisect_right if head.source <= source else bisect_left
    return bisect(head.made.times, until, head.number) - head.number


def _parts(heads: Collection[Place]) -> list[tuple[Place, int]]:
    """From where, and how many: records that come before all others."""
    ends = [
        (head.made.times[head.number : head.number + MANY][-1], head.source)
        for head in heads
    ]
    found = [(head, _before(head, *min(ends))) for head in heads]
    return [(head, count) for head, count in found if count]
