# SPDX-License-Identifier: GPL-2.0-or-later
"""A reader's place in the ring of one CPU, for reading without consuming.

All functions are for control context, but copy(), advance() and what a Page has: they
are for a reader that formats copied pages; nothing else may use the iterator then.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice

from kpfs.engine.trace.ring.cpu_ring import HEADER_WORDS, CopiedPage, CpuRing, entries

CLEARED = -1  # the stamp of no page
# a page, its stamp (None: none yet), a word of it, the time that the next delta is of
RingPlace = tuple[int, "int | None", int, int]


class RingIter:
    """A reader's place.  Kernel: struct ring_buffer_iter"""

    def __init__(self, ring: CpuRing) -> None:
        self.ring = ring
        self.reset()

    def copy(self) -> RingIter:
        """Return an independent iterator at this place.  Context: either."""
        other: RingIter = object.__new__(RingIter)
        vars(other).update(vars(self))
        return other

    def reset(self) -> None:
        """Go to the oldest unread entry.  Kernel: rb_iter_reset()."""
        ring = self.ring
        self._consumed, self._generation = ring.consumed, ring.generation
        self._page, self._word, self._ts = ring.oldest()
        stamp, end = ring.look(self._page)
        # None: nothing has been put on the page yet
        self._stamp: int | None = None if end == HEADER_WORDS else stamp
        self.missed = False  # entries were lost before the next one

    def state(self) -> tuple[CpuRing, int, int]:
        """Return a value that changes when entries go, but not when some come."""
        return self.ring, self.ring.generation, self.ring.consumed

    def place(self) -> RingPlace:
        """Return the position: behind an entry, or where it began."""
        return self._page, self._stamp, self._word, self._ts

    def stands(self) -> bool:
        """Return True if all that was behind its place is still there."""
        ring = self.ring
        if ring.consumed != self._consumed or ring.generation != self._generation:
            return False
        stamp, end = ring.look(self._page)
        return stamp == self._stamp or (self._stamp is None and end == HEADER_WORDS)

    def pages(self, limit: int) -> tuple[list[CopiedPage], bool]:
        """Copies of what follows, at most so many pages; whether that is all there is.

        If somebody has consumed entries, it goes on from the oldest one.  If its page
        has been overwritten, it goes on with what is on the page now.
        Kernel: rb_iter_peek()
        """
        ring = self.ring
        if ring.consumed != self._consumed:
            self.reset()
        page, tail = self._page, ring.tail
        found: list[CopiedPage] = []
        if not ring.entries or not ring.in_use(page):
            return found, True
        stamp, end = ring.look(page)
        if page == tail and self._word >= end:
            return found, True
        if self._generation != ring.generation:
            self._generation = ring.generation
            self._stamp = CLEARED if self._stamp is not None else None
        if self._word < end and stamp != self._stamp:
            self._word, self._ts = HEADER_WORDS, stamp
            self.missed = self.missed or self._stamp is not None
            self._stamp = stamp
        word, ts = self._word, self._ts
        while True:
            if word < end:
                if len(found) == limit:
                    return found, False
                found.append(ring.copy(page, word, end, ts))
            if page == tail:
                return found, True
            page = (page + 1) % ring.nr_pages
            ts, end = ring.look(page)
            word = HEADER_WORDS

    def advance(self, page: int, stamp: int | None, word: int, ts: int) -> None:
        """Go on behind an entry of a page: it ends before word, its time is ts.

        stamp: that of the page.  Context: either.
        """
        self._page, self._stamp, self._word, self._ts = page, stamp, word, ts

    def skip_before(self, time: int) -> int:
        """Pass over older entries; return how many.  Kernel: tracing_iter_reset()"""
        found, _ = self.pages(self.ring.nr_pages)
        # all on a page are older if the first one on the next page is
        whole = max(bisect_left(found, time, key=lambda page: page.stamp) - 1, 0)
        skipped = sum(page.entries for page in found[:whole])
        for page in islice(found, whole, None):
            number, stamp = page.number, page.stamp
            self.advance(number, stamp, page.first, page.ts)
            for ts, _start, stop in entries(
                page.words(), page.first, page.end, page.ts
            ):
                if ts >= time:
                    return skipped
                skipped += 1
                self.advance(number, stamp, stop, ts)
        return skipped
