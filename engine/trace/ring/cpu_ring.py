# SPDX-License-Identifier: GPL-2.0-or-later
"""The per-CPU ring buffers in guest memory: made, resized, walked and consumed here.

Guest code writes them; the layout is in engine/runtime/runtime.h (struct kp_ring).  All
functions are for control context, so nothing is written while they run.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from kpfs.engine.ktypes import MASK64, KAddr
from kpfs.engine.machine import Machine

PAGE_SIZE = 4096
BUF_PAGE_HDR_SIZE = 16
BUF_PAGE_SIZE = PAGE_SIZE - BUF_PAGE_HDR_SIZE
TRACE_BUF_SIZE_DEFAULT = 1441792
MIN_PAGES = 2

PAGE_WORDS = PAGE_SIZE // 4
HEADER_WORDS = BUF_PAGE_HDR_SIZE // 4

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_PAGE_HDR = struct.Struct("<QQ")  # time stamp, commit
TIME_EXTEND = 30
DELTA_BITS = 27
_MISSED_EVENTS, _MISSED_STORED = 1 << 31, 1 << 30
MAX_SMALL_DATA = 112

# struct kp_ring: offsets of its 64-bit words
_PAGES, _NR_PAGES, _HEAD, _READ, _TAIL, _LAST_TS = 0, 8, 16, 24, 32, 40
_ENTRIES, _OVERRUN, _CONSUMED, _BYTES, _ON, _OVERWRITE, _DROPPED = range(48, 104, 8)
_SCRATCH, _COUNTER, _QUANTUM, _PLACE, _OFFSET, _FULL = range(104, 152, 8)
RING_ON, RING_SLOW_CLOCK = 1, 2
_PAGE_ENTRIES = 152


# An entry: its time, the CPU, where its data begin and where they end in the pages
Record = tuple[int, int, int, int]


class Span(NamedTuple):
    """The entries of a page, as places in the words of all pages."""

    first: int  # of an entry
    end: int
    ts: int  # the time that the first one's delta is added to
    unread: int  # entries whose data begin at or before this word have been read


class RingStats(NamedTuple):
    """What per_cpu/cpuN/stats shows."""

    entries: int  # unread
    overrun: int
    bytes: int
    dropped: int
    read: int
    oldest_ts: int


def pages_for(size: int) -> int:
    """Pages of a buffer of size bytes, modulo 2^64.  Kernel: ring_buffer_resize()."""
    return max(MIN_PAGES, (size + BUF_PAGE_SIZE - 1 & MASK64) // BUF_PAGE_SIZE)


class CpuRing:
    """The ring of one CPU.  Kernel: struct ring_buffer_per_cpu."""

    def __init__(self, machine: Machine, cpu: int, nr_pages: int) -> None:
        self.cpu = cpu
        self.overrun_seen = 0  # entries whose loss trace_pipe has told of
        self._machine = machine
        self._room = 0
        self._cursor: tuple[int, int, int] = (-1, -1, 0)  # head, read, time there
        self.addr = KAddr(0)
        self._scratch = machine.area.alloc_data(PAGE_SIZE)
        self._alloc(nr_pages)
        self._set(_ON, 1)
        self._set(_OVERWRITE, 1)

    def _alloc(self, nr_pages: int) -> None:
        header = -(-(_PAGE_ENTRIES + 4 * nr_pages + 8) // PAGE_SIZE) * PAGE_SIZE
        size = header + nr_pages * PAGE_SIZE
        self.addr = self._machine.area.alloc_data(size)
        self._ring = self._machine.view(self.addr, header)
        self.pages = self._machine.view(self.addr + header, nr_pages * PAGE_SIZE)
        self._words = self.pages.cast("B").cast("I")
        self._room = nr_pages
        self._set(_PAGES, self.addr + header)
        self._set(_NR_PAGES, nr_pages)
        self._set(_SCRATCH, self._scratch)
        # struct kp_ring begins with a page whose end is a word that counts records
        self._set(_COUNTER, self.addr + header - 8)

    def free(self) -> None:
        """Give back its memory; guest code must not know of it any more."""
        self._machine.area.free_data(self.addr)
        self._machine.area.free_data(self._scratch)

    def _get(self, offset: int) -> int:
        value: int = _U64.unpack_from(self._ring, offset)[0]
        return value

    def _set(self, offset: int, value: int) -> None:
        _U64.pack_into(self._ring, offset, value)

    def _page_entries(self, page: int) -> int:
        value: int = _U32.unpack_from(self._ring, _PAGE_ENTRIES + 4 * page)[0]
        return value

    def _set_page_entries(self, page: int, value: int) -> None:
        _U32.pack_into(self._ring, _PAGE_ENTRIES + 4 * page, value)

    def _page_bytes(self, page: int) -> int:
        """Of a page that gets no more entries: page_bytes() of record.c."""
        commit = self._words[page * PAGE_WORDS + 2]
        return commit if commit + 8 > BUF_PAGE_SIZE else BUF_PAGE_SIZE

    def _settle(self) -> None:
        """Count what guest code has written the short way; the next hit goes the long.

        Before anything else is read or changed.  Context: either.
        """
        place = self._get(_PLACE)
        if not place:
            return
        self._set(_PLACE, 0)
        count = place >> 32
        if count:
            page = self._get(_TAIL)
            data = self._get(_PAGES) + page * PAGE_SIZE + BUF_PAGE_HDR_SIZE
            commit = place - data & 0xFFFF_FFFF
            size = commit - self._words[page * PAGE_WORDS + 2]
            _U64.pack_into(self.pages, page * PAGE_SIZE + 8, commit)
            self._set_page_entries(page, self._page_entries(page) + count)
            self._set(_BYTES, self._get(_BYTES) + size)
            self._set(_ENTRIES, self._get(_ENTRIES) + count)

    @property
    def nr_pages(self) -> int:
        return self._get(_NR_PAGES)

    @property
    def entries(self) -> int:
        """Unread entries.  Kernel: ring_buffer_entries_cpu()."""
        self._settle()
        return self._get(_ENTRIES) - self._get(_OVERRUN) - self._get(_CONSUMED)

    @property
    def overrun(self) -> int:
        """Entries lost to newer ones.  Kernel: ring_buffer_overrun_cpu()."""
        return self._get(_OVERRUN)

    def set_on(self, on: bool, slow_clock: bool = False) -> None:
        self._settle()
        self._set(_ON, on and (RING_ON | (RING_SLOW_CLOCK if slow_clock else 0)))

    def set_quantum(self, quantum: int, offset: int = 0) -> None:
        """Of a slow clock: unit in ns (0: records are counted), and its start."""
        self._set(_QUANTUM, quantum)
        self._set(_OFFSET, offset)
        _U64.pack_into(self._machine.view(KAddr(self._get(_COUNTER)), 8), 0, 0)

    @property
    def overwrite(self) -> bool:
        return bool(self._get(_OVERWRITE))

    def set_overwrite(self, overwrite: bool) -> None:
        self._set(_OVERWRITE, int(overwrite))

    def now(self) -> int:
        """Time by the ring's clock.  Kernel: ring_buffer_time_stamp()."""
        if not self._get(_ON) & RING_SLOW_CLOCK:
            return self._machine.clock.now()
        quantum = self._get(_QUANTUM)
        if quantum:
            return self._machine.clock.now() // quantum + self._get(_OFFSET)
        return self._count()

    def _count(self) -> int:
        """The next number of the counter that is a clock."""
        counter = self._machine.view(KAddr(self._get(_COUNTER)), 8)
        value: int = _U64.unpack(counter)[0] + 1
        _U64.pack_into(counter, 0, value)
        return value

    def stats(self) -> RingStats:
        first = next(self.records(), None)
        return RingStats(
            self.entries,
            self.overrun,
            self._get(_BYTES),
            self._get(_DROPPED),
            self._get(_CONSUMED),
            first[0] if first else 0,
        )

    def reset(self) -> None:
        """Forget all entries.  Kernel: ring_buffer_reset_cpu()."""
        self._settle()
        for page in range(self.nr_pages):
            _PAGE_HDR.pack_into(self.pages, page * PAGE_SIZE, 0, 0)
            self._set_page_entries(page, 0)
        for word in (_HEAD, _READ, _TAIL, _LAST_TS, _ENTRIES, _OVERRUN, _CONSUMED):
            self._set(word, 0)
        for word in (_BYTES, _DROPPED, _FULL):
            self._set(word, 0)
        self.overrun_seen = 0
        self._cursor = (-1, -1, 0)

    def resize(self, nr_pages: int) -> None:
        """Change the number of pages; of what does not fit, the oldest is lost.

        Kernel: ring_buffer_resize().
        """
        self._settle()
        old = self.nr_pages
        if nr_pages == old:
            return
        head, tail = self._get(_HEAD), self._get(_TAIL)
        order = [(head + i) % old for i in range((tail - head) % old + 1)]
        lost, kept = order[: -nr_pages or None], order[-nr_pages:]
        if len(order) <= nr_pages:
            lost, kept = [], order
        data = [bytes(self.pages[p * PAGE_SIZE : (p + 1) * PAGE_SIZE]) for p in kept]
        counts = [self._page_entries(p) for p in kept]
        gone = sum(self._page_entries(p) for p in lost)
        words, full = bytes(self._ring[_LAST_TS:_COUNTER]), self._get(_FULL)
        clock = self._get(_QUANTUM), self._get(_OFFSET)
        old_room = self.addr
        if lost:
            bytes_lost = sum(map(self._page_bytes, lost)) - self._get(_READ)
            self._set(_BYTES, self._get(_BYTES) - bytes_lost)
            self._set(_READ, 0)
        read = self._get(_READ)
        if nr_pages > self._room:
            self._alloc(nr_pages)
            self._machine.area.free_data(old_room)
        self._ring[_LAST_TS:_COUNTER] = words
        self._set(_QUANTUM, clock[0])
        self._set(_OFFSET, clock[1])
        self._set(_FULL, full)
        self._set(_NR_PAGES, nr_pages)
        for page in range(nr_pages):
            fits = page < len(data)
            start = page * PAGE_SIZE
            self.pages[start : start + BUF_PAGE_HDR_SIZE] = bytes(BUF_PAGE_HDR_SIZE)
            if fits:
                self.pages[start : start + PAGE_SIZE] = data[page]
            self._set_page_entries(page, counts[page] if fits else 0)
        self._set(_HEAD, 0)
        self._set(_READ, read)
        self._set(_TAIL, len(data) - 1)
        self._set(_OVERRUN, self._get(_OVERRUN) + gone)
        self._cursor = (-1, -1, 0)

    # ---- writing

    def write(self, data: bytes) -> bool:
        """Add a record, as guest code does; False: there is no place for it.

        Kernel: ring_buffer_write()
        """
        if not self._get(_ON):
            return False
        self._settle()
        data += bytes(-len(data) % 4)
        ts, head = max(self.now(), self._get(_LAST_TS)), b""
        need = len(data) + (4 if len(data) <= MAX_SMALL_DATA else 8)
        delta = ts - self._get(_LAST_TS)
        page = self._get(_TAIL)
        commit = self._words[page * PAGE_WORDS + 2]
        need += 8 if delta >> DELTA_BITS else 0
        if self._get(_FULL) or commit + need > BUF_PAGE_SIZE:
            if not self._next_page():
                self._set(_DROPPED, self._get(_DROPPED) + 1)
                return False
            page, commit = self._get(_TAIL), 0
        if not commit:
            _PAGE_HDR.pack_into(self.pages, page * PAGE_SIZE, ts, 0)
            delta = 0
        if delta >> DELTA_BITS:
            low = (delta << 5 | TIME_EXTEND) & 0xFFFF_FFFF
            head = struct.pack("<II", low, delta >> DELTA_BITS)
            delta = 0
        if len(data) <= MAX_SMALL_DATA:
            head += _U32.pack(delta << 5 | len(data) // 4)
        else:
            head += struct.pack("<II", delta << 5, len(data) + 4)
        entry = head + data
        start = page * PAGE_SIZE + BUF_PAGE_HDR_SIZE + commit
        self.pages[start : start + len(entry)] = entry
        _U64.pack_into(self.pages, page * PAGE_SIZE + 8, commit + len(entry))
        self._set_page_entries(page, self._page_entries(page) + 1)
        self._set(_BYTES, self._get(_BYTES) + len(entry))
        self._set(_ENTRIES, self._get(_ENTRIES) + 1)
        self._set(_LAST_TS, ts)
        return True

    def _next_page(self) -> bool:
        """Make the page behind the tail the new tail; False: the ring is full."""
        tail = self._get(_TAIL)
        following = (tail + 1) % self.nr_pages
        if not self._get(_FULL):
            filling = self._page_bytes(tail) - self._words[tail * PAGE_WORDS + 2]
            self._set(_BYTES, self._get(_BYTES) + filling)
        self._set(_FULL, 1)
        if following == self._get(_HEAD):
            if not self.overwrite:
                return False
            gone = self._page_bytes(following) - self._get(_READ)
            self._set(_OVERRUN, self.overrun + self._page_entries(following))
            self._set(_BYTES, self._get(_BYTES) - gone)
            self._set(_READ, 0)
            self._set(_HEAD, (following + 1) % self.nr_pages)
        self._set(_FULL, 0)
        self._set(_TAIL, following)
        self._set_page_entries(following, 0)
        _PAGE_HDR.pack_into(self.pages, following * PAGE_SIZE, 0, 0)
        return True

    # ---- reading

    def spans(self) -> Iterator[Span]:
        """The pages with unread entries, oldest first."""
        if not self.entries:
            return
        words, nr_pages = self._words, self.nr_pages
        page, read, tail = self._get(_HEAD), self._get(_READ), self._get(_TAIL)
        unread = page * PAGE_WORDS + HEADER_WORDS + read // 4
        while True:
            base = page * PAGE_WORDS
            ts = words[base] | words[base + 1] << 32
            end = base + HEADER_WORDS + words[base + 2] // 4
            first = base + HEADER_WORDS
            if unread and self._cursor[:2] == (page, read):
                first, ts = unread, self._cursor[2]
            yield Span(first, end, ts, unread)
            unread = 0
            if page == tail:
                return
            page = (page + 1) % nr_pages

    def records(self) -> Iterator[Record]:
        """The unread entries, oldest first; they stay where they are."""
        words, cpu = self._words, self.cpu
        for i, end, ts, unread in self.spans():
            while i < end:
                word = words[i]
                kind = word & 31
                i += 1
                if kind == TIME_EXTEND:
                    ts += (words[i] << 27) + (word >> 5)
                    i += 1
                    continue
                ts += word >> 5
                start = i
                if kind:
                    i += kind
                else:
                    i += words[i] // 4
                    start += 1
                if start > unread:
                    yield ts, cpu, start * 4, i * 4

    @property
    def dirty_pages(self) -> int:
        """Full ones that are unread.  Kernel: ring_buffer_nr_dirty_pages()"""
        return (self._get(_TAIL) - self._get(_HEAD)) % self.nr_pages

    def read_page(self, room: int = BUF_PAGE_SIZE) -> bytes:
        """The oldest page's unread entries, as far as there is room, taken out.

        They are a page of their own; b"": there are none.
        Kernel: ring_buffer_read_page()
        """
        head = next(self.records(), (0, 0, 0, 0))[2] // PAGE_SIZE
        read = self._get(_READ) if head == self._get(_HEAD) else 0
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
        return (_PAGE_HDR.pack(ts, commit) + data).ljust(PAGE_SIZE, b"\0")

    def consume(self, count: int, last: Record) -> None:
        """Take the oldest entries out, of which last is the newest.

        Kernel: ring_buffer_consume()
        """
        self._settle()
        ts, _, start, end = last
        page, head, nr_pages = start // PAGE_SIZE, self._get(_HEAD), self.nr_pages
        gone, left = -self._get(_READ), count
        while head != page:
            left -= self._page_entries(head)
            self._set_page_entries(head, 0)
            gone += self._page_bytes(head)
            head = (head + 1) % nr_pages
        self._set_page_entries(page, self._page_entries(page) - left)
        read = end - page * PAGE_SIZE - BUF_PAGE_HDR_SIZE
        self._set(_HEAD, page)
        self._set(_READ, read)
        self._set(_BYTES, self._get(_BYTES) - gone - read)
        self._set(_CONSUMED, self._get(_CONSUMED) + count)
        self._cursor = (page, read, ts)
