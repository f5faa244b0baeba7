# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the records of a page and their times."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from kpfs.engine.trace.ring.cpu_ring import (
    BUF_PAGE_HDR_SIZE,
    HEADER_WORDS,
    CopiedPage,
    entries,
)

PADDING = 29  # the first type of an entry that does not tell the size of its data


class PageRecords(NamedTuple):
    """The records that a page begins with, by number; places are bytes of the body."""

    page: int  # its place in the ring
    stamp: int
    body: bytes  # all that is behind its header, up to the end of the last record
    times: Sequence[int]
    starts: Sequence[int]  # the offset of data
    stops: Sequence[int]  # and end

    def data(self, number: int) -> bytes:
        """Return a record's data."""
        return self.body[self.starts[number] : self.stops[number]]


def page_records(page: CopiedPage, known: PageRecords | None = None) -> PageRecords:
    """Return the records of a page from its begin to page.end.

    known: the records found there before, which are returned if the page is the same.
    """
    stamp, body = page.stamp, page.data[BUF_PAGE_HDR_SIZE : 4 * page.end]
    if known and known.stamp == stamp and known.body == body:
        return known
    words = page.words()
    found = _alike(words, page.end, stamp) or _any(words, page.end, stamp)
    return PageRecords(page.number, stamp, body, *found)


_Found = tuple[Sequence[int], Sequence[int], Sequence[int]]


def _alike(words: list[int], end: int, stamp: int) -> _Found | None:
    """Times and places of records that are all of one size; None: they are not."""
    kind = words[HEADER_WORDS] & 31
    step = 4 * (kind + 1)
    heads = words[HEADER_WORDS : end : kind + 1]
    if not 0 < kind < PADDING or {head & 31 for head in heads} != {kind}:
        return None
    times = accumulate(
        [head >> 5 for head in heads[1:]], initial=stamp + (heads[0] >> 5)
    )
    starts = range(4, 4 + step * len(heads), step)
    return array("Q", times), starts, range(step, step + step * len(heads), step)


def _any(words: list[int], end: int, stamp: int) -> _Found:
    """Times and places of records of any size."""
    times, starts, stops = array("Q"), array("H"), array("H")
    for time, start, stop in entries(words, HEADER_WORDS, end, stamp):
        times.append(time)
        starts.append(4 * start - BUF_PAGE_HDR_SIZE)
        stops.append(4 * stop - BUF_PAGE_HDR_SIZE)
    return times, starts, stops
