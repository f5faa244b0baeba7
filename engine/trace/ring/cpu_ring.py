# SPDX-License-Identifier: GPL-2.0-or-later
"""The per-CPU ring buffers in guest memory: made, resized, walked and consumed here.

A hit writes its record without Python.  So a ring is memory of the guest (struct
kp_ring, engine/runtime/runtime.h), which guest code fills and Python reads while the
guest stands still.  To count each record in several words would take a hit's time, so
the short way (lite.S) moves the word ``place`` alone; _settle() does the counting.

Invariants: _settle() comes before anything else is read or changed.  The pages from
head to tail, in a circle, are in use; the writer clears a page when it comes to it.
The time of an entry is its distance from the one before, so each place in a ring goes
with that one's time: ``_cursor`` keeps it where consuming has stopped.  A ring that
somebody reads without consuming (``readers``) keeps its pages, and ``generation`` tells
such readers that all entries were cleared or moved.

All functions are for control context.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kpfs.base import abi, mapping
from kpfs.base.abi import (
    DELTA_BITS,
    MAX_SMALL_DATA,
    RING_FAR,
    RING_SLOW_CLOCK,
    TYPE_TIME_EXTEND,
    KpPage,
)
from kpfs.base.ktypes import MASK64, KAddr
from kpfs.engine.machine import Machine
from kpfs.engine.runtime.records import KpRing

PAGE_SIZE = KpPage.SIZE
BUF_PAGE_HDR_SIZE = KpPage.STRUCT.size
BUF_PAGE_SIZE = PAGE_SIZE - BUF_PAGE_HDR_SIZE
TRACE_BUF_SIZE_DEFAULT = 1441792
MIN_PAGES = 2

PAGE_WORDS = PAGE_SIZE // 4
HEADER_WORDS = BUF_PAGE_HDR_SIZE // 4

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_COMMIT_WORD = KpPage.commit // 4
_MISSED_EVENTS, _MISSED_STORED = 1 << 31, 1 << 30

RING_ON = 1

# An entry: its time, the CPU, where its data begin and where they end in the pages
Record = tuple[int, int, int, int]


class CopiedPage(NamedTuple):
    """A copy of a page, and which entries of it are to be read; places are words."""

    number: int  # in the ring
    entries: int  # unread ones on the page
    data: bytes
    first: int  # the begin of the first entry
    end: int
    ts: int  # the time that the first one's delta is added to

    @property
    def stamp(self) -> int:
        """The time of the first entry that was put on the page."""
        stamp: int = _U64.unpack_from(self.data)[0]
        return stamp

    def words(self) -> list[int]:
        return memoryview(self.data).cast("I").tolist()


def entries(
    words: Sequence[int], i: int, end: int, ts: int
) -> Iterator[tuple[int, int, int]]:
    """The entries from word i up to end, as (time, first word of data, word behind).

    ts: the time that the first one's delta is added to.
    """
    while i < end:
        word = words[i]
        kind = word & 31
        i += 1
        if kind == TYPE_TIME_EXTEND:
            ts += (words[i] << DELTA_BITS) + (word >> 5)
            i += 1
            continue
        ts += word >> 5
        start = i
        if kind:
            i += kind
        else:
            i += words[i] // 4
            start += 1
        yield ts, start, i


class RingStats(NamedTuple):
    """The numbers that per_cpu/cpuN/stats shows."""

    entries: int  # unread
    overrun: int
    bytes: int
    dropped: int
    read: int
    oldest_ts: int


class Room(NamedTuple):
    """The memory of a ring."""

    addr: KAddr
    header: int  # bytes of struct kp_ring and what belongs to it, in whole pages
    nr_pages: int
    is_far: bool  # in spite of what was wanted it is not in the top 2 GiB


def pages_for(size: int) -> int:
    """Return the pages for size bytes, modulo 2^64.  Kernel: ring_buffer_resize()."""
    return max(MIN_PAGES, (size + BUF_PAGE_SIZE - 1 & MASK64) // BUF_PAGE_SIZE)


class CpuRing:
    """The ring of one CPU.  Kernel: struct ring_buffer_per_cpu."""

    def __init__(
        self, machine: Machine, cpu: int, nr_pages: int, *, near: bool
    ) -> None:
        """near: guest code writes into it the short way, if it gets such memory."""
        self.cpu = cpu
        self.overrun_seen = 0  # lost entries that trace_pipe has reported
        self._lost = 0, 0  # before the last reset: overrun, dropped
        self._machine = machine
        self._near = near
        self.generation = 0  # counts how often all entries were cleared, or moved
        self.readers = (
            0  # those that do not consume; while there are any, it keeps its size
        )
        self._cursor: tuple[int, int, int] = (-1, -1, 0)  # head, read, time there
        self._set_room(self.alloc_room(nr_pages))
        self._ring.on = self._ring.overwrite = 1

    def alloc_room(self, nr_pages: int) -> Room:
        """Memory for a ring of so many pages; ENOMEM."""
        header = (
            -(-(abi.KpRing.page_entries + 4 * nr_pages + 8) // PAGE_SIZE) * PAGE_SIZE
        )
        area = self._machine.area
        size = header + (1 + nr_pages) * PAGE_SIZE
        addr, is_near = area.alloc_ring(size, near=self._near)
        return Room(addr, header, nr_pages, self._near and not is_near)

    def free_room(self, room: Room) -> None:
        self._machine.area.free_ring(room.addr)

    def _set_room(self, room: Room) -> None:
        """Lie in other memory, in which nothing has been written."""
        # struct kp_ring, whose last word counts records; the scratch page; the pages
        self.addr, header = room.addr, room.header
        self._room = room
        start = self.addr + header
        view = self._machine.view(self.addr, header)
        words = mapping.known(view.cast("B").cast("Q"))
        self._ring = ring = KpRing(self.addr, words, 0)
        entries = view[abi.KpRing.page_entries :].cast("B").cast("I")
        self._page_entries = mapping.known(entries)
        size = room.nr_pages * PAGE_SIZE
        self.pages = self._machine.view(KAddr(start + PAGE_SIZE), size)
        self._words = mapping.known(self.pages.cast("B").cast("I"))
        ring.pages, ring.nr_pages = start + PAGE_SIZE, room.nr_pages
        ring.scratch, ring.counter = start, start - 8

    def free(self) -> None:
        """Give back its memory; guest code must not know of it any more."""
        self.free_room(self._room)

    def _page_bytes(self, page: int) -> int:
        """Return the bytes that a finished page counts for: page_bytes() of record.c"""
        commit = self._words[page * PAGE_WORDS + _COMMIT_WORD]
        return commit if commit + 8 > BUF_PAGE_SIZE else BUF_PAGE_SIZE

    def _settle(self) -> None:
        """Count what guest code has written the short way; the next hit takes the long.

        Call it before anything else is read or changed.  Context: either.
        """
        place = self._ring.place
        if not place:
            return
        self._ring.place = 0
        count = place >> 32
        if count:
            page = self._ring.tail
            data = self._ring.pages + page * PAGE_SIZE + BUF_PAGE_HDR_SIZE
            commit = place - data & 0xFFFF_FFFF
            size = commit - self._words[page * PAGE_WORDS + _COMMIT_WORD]
            _U64.pack_into(self.pages, page * PAGE_SIZE + KpPage.commit, commit)
            self._page_entries[page] += count
            self._ring.bytes += size
            self._ring.entries += count

    @property
    def nr_pages(self) -> int:
        return self._room.nr_pages

    @property
    def entries(self) -> int:
        """The number of unread entries.  Kernel: ring_buffer_entries_cpu()."""
        self._settle()
        gone = self._ring.overrun + self._ring.consumed
        return self._ring.entries - gone

    @property
    def written(self) -> tuple[int, int]:
        """A value that changes with each entry that is written."""
        self._settle()
        return self.generation, self._ring.entries

    @property
    def consumed(self) -> int:
        """The number of entries that were consumed."""
        return self._ring.consumed

    @property
    def tail(self) -> int:
        """The page that is being written."""
        return self._ring.tail

    @property
    def overrun(self) -> int:
        """Entries lost to newer ones.  Kernel: ring_buffer_overrun_cpu()."""
        return self._ring.overrun

    def lost(self) -> tuple[int, int]:
        """Return all entries that were lost to newer ones, and for lack of room."""
        overrun, dropped = self._lost
        return overrun + self._ring.overrun, dropped + self._ring.dropped

    def set_on(self, on: bool, slow_clock: bool = False) -> None:
        self._settle()
        clock = RING_SLOW_CLOCK if slow_clock else 0
        far = RING_FAR if self._room.is_far else 0
        self._ring.on = on and (RING_ON | clock | far)

    def set_quantum(self, quantum: int, offset: int = 0) -> None:
        """Set a slow clock: its unit in ns (0: it counts records), and its start."""
        self._ring.quantum, self._ring.offset = quantum, offset
        self._ring.words[-1] = 0  # the counter

    @property
    def overwrite(self) -> bool:
        return bool(self._ring.overwrite)

    @overwrite.setter
    def overwrite(self, overwrite: bool) -> None:
        self._ring.overwrite = int(overwrite)

    def now(self) -> int:
        """Return the time by the ring's clock.  Kernel: ring_buffer_time_stamp()."""
        if not self._ring.on & RING_SLOW_CLOCK:
            return self._machine.clock.now()
        quantum = self._ring.quantum
        if quantum:
            return self._machine.clock.now() // quantum + self._ring.offset
        words = self._ring.words
        words[-1] += 1
        return words[-1]

    def stats(self) -> RingStats:
        first = next(self.records(), None)
        return RingStats(
            self.entries,
            self.overrun,
            self._ring.bytes,
            self._ring.dropped,
            self._ring.consumed,
            first[0] if first else 0,
        )

    def reset(self) -> None:
        """Forget all entries.  Kernel: ring_buffer_reset_cpu()."""
        self._settle()
        self._lost = self.lost()
        self.generation += 1
        # the others are cleared when the writer comes to them
        KpPage.STRUCT.pack_into(self.pages, 0, 0, 0)
        self._page_entries[0] = 0
        ring = self._ring
        ring.head = ring.read = ring.tail = ring.full = ring.last_ts = 0
        ring.entries = ring.overrun = ring.consumed = ring.bytes = ring.dropped = 0
        self.overrun_seen = 0
        self._cursor = (-1, -1, 0)

    def resize(self, room: Room) -> None:
        """Change the number of pages; if not all entries fit, the oldest are lost.

        room: from alloc_room().  Not while somebody reads it without consuming.
        Kernel: ring_buffer_resize().
        """
        self._settle()
        assert not self.readers
        self.generation += 1
        old, nr_pages = self._room, room.nr_pages
        head = self._ring.head
        order = [(head + i) % old.nr_pages for i in range(self.dirty_pages + 1)]
        lost, kept = order[:-nr_pages], order[-nr_pages:]
        data = [bytes(self.pages[p * PAGE_SIZE : (p + 1) * PAGE_SIZE]) for p in kept]
        counts = [self._page_entries[p] for p in kept]
        if lost:
            gone = sum(map(self._page_bytes, lost)) - self._ring.read
            self._ring.bytes -= gone
            self._ring.read = 0
            self._ring.overrun += sum(self._page_entries[p] for p in lost)
        words = self._ring.words
        self._set_room(room)
        for first, behind in (
            (abi.KpRing.head, abi.KpRing.scratch),
            (abi.KpRing.quantum, abi.KpRing.page_entries),
        ):
            same = slice(first // 8, behind // 8)
            self._ring.words[same] = words[same]
        self._ring.words[-1] = words[-1]
        for page, (content, count) in enumerate(zip(data, counts, strict=True)):
            if not any(content):
                continue  # it has not been written yet, and stays so
            self.pages[page * PAGE_SIZE : (page + 1) * PAGE_SIZE] = content
            self._page_entries[page] = count
        self._ring.head = 0
        self._ring.tail = len(kept) - 1
        self._cursor = (-1, -1, 0)
        self.free_room(old)

    # ---- writing

    def write(self, data: bytes) -> bool:
        """Add a record; False: off or no room.  Kernel: ring_buffer_write()"""
        if not self._ring.on:
            return False
        self._settle()
        data += bytes(-len(data) % 4)
        ts, head = max(self.now(), self._ring.last_ts), b""
        need = len(data) + (4 if len(data) <= MAX_SMALL_DATA else 8)
        delta = ts - self._ring.last_ts
        page = self._ring.tail
        commit = self._words[page * PAGE_WORDS + _COMMIT_WORD]
        need += 8 if delta >> DELTA_BITS else 0
        if self._ring.full or commit + need > BUF_PAGE_SIZE:
            if not self._next_page():
                self._ring.dropped += 1
                return False
            page, commit = self._ring.tail, 0
        if not commit:
            KpPage.STRUCT.pack_into(self.pages, page * PAGE_SIZE, ts, 0)
            delta = 0
        if delta >> DELTA_BITS:
            low = (delta << 5 | TYPE_TIME_EXTEND) & 0xFFFF_FFFF
            head = struct.pack("<II", low, delta >> DELTA_BITS)
            delta = 0
        if len(data) <= MAX_SMALL_DATA:
            head += _U32.pack(delta << 5 | len(data) // 4)
        else:
            head += struct.pack("<II", delta << 5, len(data) + 4)
        entry = head + data
        start = page * PAGE_SIZE + BUF_PAGE_HDR_SIZE + commit
        self.pages[start : start + len(entry)] = entry
        _U64.pack_into(
            self.pages, page * PAGE_SIZE + KpPage.commit, commit + len(entry)
        )
        self._page_entries[page] += 1
        self._ring.bytes += len(entry)
        self._ring.entries += 1
        self._ring.last_ts = ts
        return True

    def _next_page(self) -> bool:
        """Make the page behind the tail the new tail; False: the ring is full."""
        tail = self._ring.tail
        following = (tail + 1) % self.nr_pages
        if not self._ring.full:
            filling = (
                self._page_bytes(tail) - self._words[tail * PAGE_WORDS + _COMMIT_WORD]
            )
            self._ring.bytes += filling
        self._ring.full = 1
        if following == self._ring.head:
            if not self.overwrite:
                return False
            gone = self._page_bytes(following) - self._ring.read
            self._ring.overrun += self._page_entries[following]
            self._ring.bytes -= gone
            self._ring.read = 0
            self._ring.head = (following + 1) % self.nr_pages
        self._ring.full = 0
        self._ring.tail = following
        self._page_entries[following] = 0
        KpPage.STRUCT.pack_into(self.pages, following * PAGE_SIZE, 0, 0)
        return True

    # ---- reading without consuming: RingIter

    def begin_reading(self) -> None:
        """Keep the pages until end_reading(), for a reader that does not consume."""
        self.readers += 1

    def end_reading(self) -> None:
        self.readers -= 1

    def oldest(self) -> tuple[int, int, int]:
        """Return the position of the first unread entry: page, word, time before it."""
        self._settle()
        page, read = self._ring.head, self._ring.read
        word, (ts, _) = HEADER_WORDS + read // 4, self.look(page)
        if read and self._cursor[:2] == (page, read):
            ts = self._cursor[2]
        elif read:
            base = page * PAGE_WORDS
            page_words = self._words[base : base + word]
            for time, _, _ in entries(page_words, HEADER_WORDS, word, ts):
                ts = time
        return page, word, ts

    def in_use(self, page: int) -> bool:
        """Return True if there may be unread entries on a page."""
        head, nr_pages = self._ring.head, self.nr_pages
        return (page - head) % nr_pages <= (self.tail - head) % nr_pages

    def look(self, page: int) -> tuple[int, int]:
        """Return the time of a page's first entry, and the word where the last ends."""
        self._settle()
        base = page * PAGE_WORDS
        words = self._words
        end = HEADER_WORDS + words[base + _COMMIT_WORD] // 4
        return words[base] | words[base + 1] << 32, end

    def copy(self, page: int, first: int, end: int, ts: int) -> CopiedPage:
        """Return a copy of a page, as a Page."""
        start = page * PAGE_SIZE
        data = bytes(self.pages[start : start + PAGE_SIZE])
        count = self._page_entries[page]
        return CopiedPage(page, count, data, first, end, ts)

    # ---- consuming

    def state(self) -> tuple[int, int, int]:
        """Return a value that changes when entries go, but not when some come."""
        return self.generation, self._ring.consumed, self.overrun

    def unread(self) -> Iterator[CopiedPage]:
        """Yield the pages with unread entries, oldest first."""
        if not self.entries:
            return
        page, word, ts = self.oldest()
        while True:
            stamp, end = self.look(page)
            if not word:
                word, ts = HEADER_WORDS, stamp
            if word < end:
                yield self.copy(page, word, end, ts)
            if page == self.tail:
                return
            page, word = (page + 1) % self.nr_pages, 0

    def records(self) -> Iterator[Record]:
        """Yield the unread entries, oldest first; they stay where they are."""
        for page in self.unread():
            base = page.number * PAGE_SIZE
            found = entries(page.words(), page.first, page.end, page.ts)
            for ts, start, stop in found:
                yield ts, self.cpu, base + start * 4, base + stop * 4

    @property
    def dirty_pages(self) -> int:
        """The number of full, unread pages.  Kernel: ring_buffer_nr_dirty_pages()"""
        return (self._ring.tail - self._ring.head) % self.nr_pages

    def has_full_page(self) -> bool:
        """Return True if no writer is on the page of the oldest unread entry."""
        page = next((page.number for page in self.unread()), self.tail)
        return page != self.tail

    def read_page(self, room: int = BUF_PAGE_SIZE) -> bytes:
        """Take out the oldest page's unread entries, as many as there is room for.

        They are returned as a page of their own; b"": there are none.
        Kernel: ring_buffer_read_page()
        """
        head = next(self.records(), (0, 0, 0, 0))[2] // PAGE_SIZE
        read = self._ring.read if head == self._ring.head else 0
        start = head * PAGE_SIZE + BUF_PAGE_HDR_SIZE + read
        end = min((head + 1) * PAGE_SIZE, start + room)
        count, last = 0, None
        for record in self.records():
            if record[3] > end or record[2] < start:
                break
            count, last = count + 1, record
        if last is None:
            return b""
        data = bytes(self.pages[start : last[3]])
        ts = self._words[head * PAGE_WORDS] | self._words[head * PAGE_WORDS + 1] << 32
        if read and self._cursor[:2] == (head, read):
            ts = self._cursor[2]
        lost, self.overrun_seen = self.overrun - self.overrun_seen, self.overrun
        commit = len(data)
        if lost:
            commit |= _MISSED_EVENTS
            if len(data) + 8 <= BUF_PAGE_SIZE:
                commit |= _MISSED_STORED
                data += _U64.pack(lost)
        self.consume(count, last)
        return (KpPage.STRUCT.pack(ts, commit) + data).ljust(PAGE_SIZE, b"\0")

    def consume(self, count: int, last: Record) -> None:
        """Take out count entries, up to ``last``.  Kernel: ring_buffer_consume()"""
        self._settle()
        ts, _, start, end = last
        page, head, nr_pages = start // PAGE_SIZE, self._ring.head, self.nr_pages
        gone, left = -self._ring.read, count
        while head != page:
            left -= self._page_entries[head]
            self._page_entries[head] = 0
            gone += self._page_bytes(head)
            head = (head + 1) % nr_pages
        self._page_entries[page] -= left
        read = end - page * PAGE_SIZE - BUF_PAGE_HDR_SIZE
        self._ring.head = page
        self._ring.read = read
        self._ring.bytes -= gone + read
        self._ring.consumed += count
        self._cursor = (page, read, ts)
