# SPDX-License-Identifier: GPL-2.0-or-later
"""Records as lines, many at a time."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from engine.trace.ring import PAGE_SIZE, PAGE_WORDS, TIME_EXTEND, CpuRing
from engine.trace.text import lat_fmt, symbol_text

if TYPE_CHECKING:
    from engine.trace.array import TraceArray
    from engine.trace.events import Printer

# A record's time, CPU, line, and where its data begin and end in the CPU's pages
Entry = tuple[int, int, str, int, int]
_Parts = tuple[str, str]  # of a line: before and behind the time

BATCH = 128  # records: few, for readers with little room may not want them all
KNOWN_MAX = 1 << 16
NSEC = 1_000_000_000

_U64 = struct.Struct("<Q")


class Lines:
    """Makes lines of records, for one reading of the trace.

    It remembers of which bytes it made which text: most records differ in time alone.
    Kernel: print_trace_line(), trace_print_context()
    """

    def __init__(self, tr: TraceArray) -> None:
        self._tr = tr
        self._prefixes: dict[tuple[int, int], str] = {}
        self._printers: dict[int, Printer] = {}
        self._irq_info = tr.options["irq-info"]
        self._symbol = symbol_text(tr)
        self._context_info = tr.options["context-info"]
        self._in_ns = self._context_info and tr.ring.in_ns

    def batches(self, ring: CpuRing) -> Iterator[list[Entry]]:
        """The unread records of a CPU, oldest first.

        Nothing must change before the last is given.
        """
        cpu, in_ns = ring.cpu, self._in_ns
        known: dict[bytes, _Parts] = {}  # of records of one second
        second = end_of_second = 0  # in ns, less what rounds up to it
        secs = ""
        found: list[Entry] = []
        for first, last, ts, unread in ring.spans():
            page = first // PAGE_WORDS
            base = page * PAGE_WORDS
            raw = bytes(ring.pages[page * PAGE_SIZE : (page + 1) * PAGE_SIZE])
            words = memoryview(raw).cast("I").tolist()
            i, end = first - base, last - base
            base, unread = base * 4, unread - base
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
                if start <= unread:
                    continue
                if ts >= end_of_second:
                    secs, second = self._second(ts)
                    end_of_second = second + NSEC
                    known = {}
                data = raw[start * 4 : i * 4]
                parts = known.get(data)
                if parts is None:
                    parts = self._parts(ring, base + start * 4, secs)
                    if len(known) < KNOWN_MAX:
                        known[data] = parts
                head, tail = parts
                if in_ns:
                    text = head + str((ts - second) // 1000).zfill(6) + tail
                else:
                    text = self._line(ts, parts)
                found.append((ts, cpu, text, base + start * 4, base + i * 4))
                if len(found) == BATCH:
                    yield found
                    found = []
        if found:
            yield found

    def _second(self, ts: int) -> tuple[str, int]:
        """How times of that second begin, and the first that is rounded to it."""
        if not self._in_ns:
            return "", 1 << 64
        second = (ts + 500) // NSEC
        return f"{second:5d}.", second * NSEC - 500

    def _parts(self, ring: CpuRing, record: int, secs: str) -> _Parts:
        """What stands around the changing part of the time."""
        (common,) = _U64.unpack_from(ring.pages, record)
        number = common & 0xFFFF
        show = self._printers.get(number)
        if show is None:
            event = self._tr.events.by_id(number)
            show = event.printer(self._symbol) if event else _unknown(number)
            self._printers[number] = show
        text = show(ring.pages, record)
        if not self._context_info:
            return "", text
        key = ring.cpu, common >> 16
        prefix = self._prefixes.get(key)
        if prefix is None:
            prefix = self._prefixes[key] = self._prefix(*key)
        return prefix + secs, f": {text}"

    def _line(self, ts: int, parts: _Parts) -> str:
        """A line without a time in ns."""
        head, tail = parts
        return f"{head}{ts:12d}{tail}" if self._context_info else tail

    def _prefix(self, cpu: int, common: int) -> str:
        """common: flags, preempt count and pid of the record."""
        pid = common >> 16
        pid -= (pid & 0x8000_0000) << 1
        comm = self._tr.find_cmdline(pid)
        flags = ""
        if self._irq_info:
            flags = lat_fmt(common & 0xFF, common >> 8 & 0xFF)
        return f"{comm:>16}-{pid:<7d} [{cpu:03d}] {flags} "


def _unknown(number: int) -> Callable[[memoryview, int], str]:
    return lambda pages, record: f"Unknown type {number}\n"
