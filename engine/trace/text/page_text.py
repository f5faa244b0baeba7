# SPDX-License-Identifier: GPL-2.0-or-later
"""The text of a page of records, and in which order that of several CPUs is read."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

from kpfs.engine.trace.ring.cpu_ring import PAGE_SIZE, Page, Record


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

    def begin(self, record: int) -> int:
        """Where a record's line begins."""
        return self.ends[record - 1] if record else 0

    def lines(self, first: int, last: int) -> str:
        """Those of some records; last: one behind."""
        return self.text[self.begin(first) : self.begin(last)]


class Run(NamedTuple):
    """Records of a page that follow one another in the trace."""

    source: int  # which of the CPUs
    page: Page
    made: PageText
    first: int
    last: int  # one behind

    def up_to(self, size: int) -> int:
        """One behind the record whose line brings the text to so many characters."""
        begin = self.made.begin(self.first)
        record = bisect_left(self.made.ends, begin + size, self.first, self.last)
        return min(record + 1, self.last)

    def data(self, number: int) -> bytes:
        """A record's data."""
        made = self.made
        return self.page.data[4 * made.starts[number] : 4 * made.stops[number]]

    def record(self, number: int, cpu: int) -> Record:
        """A record, as the ring of a CPU has it."""
        made, base = self.made, self.page.number * PAGE_SIZE
        start, stop = 4 * made.starts[number], 4 * made.stops[number]
        return made.times[number], cpu, base + start, base + stop


def runs(
    sources: Sequence[Iterator[tuple[Page, PageText]]],
    whole: Collection[int] | None = None,
) -> Iterator[Run]:
    """The records of all sources, oldest first.

    A source gives the pages of a CPU, from the record at page.first on; of records with
    the same time, those of the earlier source come first.
    whole: the sources behind whose end there is nothing, None: all.  At the end of
    another one it ends, for what comes next may be there.
    """
    places: dict[int, _Place] = {}
    order: list[tuple[int, int]] = []  # a heap: time of the next record, source
    for source, pages in enumerate(sources):
        begin = _next_page(pages)
        if begin is not None:
            places[source] = begin
            order.append((begin.time, source))
        elif whole is not None and source not in whole:
            return
    heapify(order)
    while order:
        source = order[0][1]
        page, made, first = places[source]
        last = len(made.times)
        if len(order) > 1:
            until, other = min(order[1:3])
            bisect = bisect_right if source < other else bisect_left
            last = bisect(made.times, until, first)
        yield Run(source, page, made, first, last)
        following: _Place | None = _Place(page, made, last)
        if last == len(made.times):
            following = _next_page(sources[source])
        if following is not None:
            places[source] = following
            heapreplace(order, (following.time, source))
        elif whole is None or source in whole:
            heappop(order)
        else:
            return


class _Place(NamedTuple):
    """Of a source: a page, and the record on it that is next."""

    page: Page
    made: PageText
    record: int

    @property
    def time(self) -> int:
        return self.made.times[self.record]


def _next_page(pages: Iterator[tuple[Page, PageText]]) -> _Place | None:
    """The next page with a record to read; None: there is none."""
    for page, made in pages:
        first = bisect_right(made.stops, page.first)
        if first < len(made.stops):
            return _Place(page, made, first)
    return None
