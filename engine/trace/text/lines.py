# SPDX-License-Identifier: GPL-2.0-or-later
"""Turns records into the lines of trace and trace_pipe, many at a time."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, count, repeat
from typing import NamedTuple

from kpfs import abi
from kpfs.engine.trace.array.trace_array import TraceArray
from kpfs.engine.trace.event.trace_event import Printer, SymbolText
from kpfs.engine.trace.ring.cpu_ring import PAGE_SIZE, Page, entries
from kpfs.engine.trace.symbols import ip_sym

# A record: its time, CPU, line, and where its data begin and end in the CPU's pages
Entry = tuple[int, int, str, int, int]
_Parts = tuple[str, str]  # of a line: the text before and behind the time

BATCH = 128  # records per batch: few, as a reader may have room for little
KNOWN_MAX = 1 << 16
KEPT_MAX = 1 << 12  # from one read() to the next
PADDING = 29  # the first type of an entry that does not tell the size of its data
NSEC = 1_000_000_000
LINE_MAX = 4096  # kernel: struct trace_seq
TOO_BIG = "[LINE TOO BIG]\n"
_WHOLE = ("{", "}", ",", "\n", "(fault)")  # these may fill a line to its last byte

# struct trace_entry.flags.  Kernel: enum trace_flag_type
_IRQS_OFF, _NEED_RESCHED = abi.TRACE_FLAG_IRQS_OFF, abi.TRACE_FLAG_NEED_RESCHED
_HARDIRQ, _SOFTIRQ = abi.TRACE_FLAG_HARDIRQ, abi.TRACE_FLAG_SOFTIRQ
_PREEMPT_RESCHED = abi.TRACE_FLAG_PREEMPT_RESCHED
_NMI, _BH_OFF = abi.TRACE_FLAG_NMI, abi.TRACE_FLAG_BH_OFF

_U64 = struct.Struct("<Q")
_U16 = struct.Struct("<H")


class Known(NamedTuple):
    """The text of data, within one second."""

    begin: int  # ns: the first time that is rounded to it
    end: int
    secs: str
    texts: dict[bytes, _Parts]


class Lines:
    """Makes lines of records, for one reading of the trace.

    It remembers the text that it made of which bytes: most records differ only in time.
    Kernel: print_trace_line(), trace_print_context()
    """

    def __init__(self, tr: TraceArray, in_ns: bool | None = None) -> None:
        """in_ns: whether times are in ns, if not as the clock now says."""
        self._tr = tr
        self._made_for = self._surroundings()
        self._comms: dict[int, str] = {}
        self.known: dict[int, Known] = {}  # of each CPU
        self._prefixes: dict[tuple[int, int], str] = {}
        self._printers: dict[int, Printer] = {}
        self._irq_info = tr.options["irq-info"]
        self._symbol = symbol_text(tr)
        self._context_info = tr.options["context-info"]
        self.in_ns = self._context_info and (tr.ring.in_ns if in_ns is None else in_ns)

    def batches(
        self, cpu: int, pages: Iterable[Page], batch: int = BATCH
    ) -> Iterator[list[Entry]]:
        """The records on a CPU's pages, so many at a time."""
        return _CpuLines(self, cpu, batch).batches(pages)

    def current(self) -> bool:
        """Whether it would still give the same text, and is worth being kept."""
        return (
            self._made_for == self._surroundings()
            and len(self._comms) + sum(len(k.texts) for k in self.known.values())
            < KEPT_MAX
            and all(self._tr.find_cmdline(p) == c for p, c in self._comms.items())
        )

    def _surroundings(self) -> tuple[int, int, list[bool]]:
        tr = self._tr
        symbols = tr.st.machine.kallsyms.generation
        return symbols, tr.events.epoch, list(tr.options.values.values())

    def alone(self, ts: int, cpu: int, record: bytes) -> str:
        """The line of one record."""
        secs, second = self.second(ts)
        head, tail = self.parts(cpu, memoryview(record), 0, len(record), secs)
        if self.in_ns:
            return head + str((ts - second) // 1000).zfill(6) + tail
        return self.line(ts, (head, tail))

    def second(self, ts: int) -> tuple[str, int]:
        """The text of a time's second, and the first time that is rounded to it."""
        if not self.in_ns:
            return "", 1 << 64
        second = (ts + 500) // NSEC
        return f"{second:5d}.", second * NSEC - 500

    def parts(
        self, cpu: int, page: memoryview, record: int, end: int, secs: str
    ) -> _Parts:
        """The text of a line before and behind the fraction of its time."""
        (common,) = _U64.unpack_from(page, record)
        number = common & 0xFFFF
        show = self._printers.get(number)
        if show is None:
            event = self._tr.events.by_id(number)
            show = event.printer(self._symbol) if event else _unknown(number)
            self._printers[number] = show
        page = page[:end]
        text = show(page, record)
        if not self._context_info:
            return "", self._fitted(text, 0, page, record)
        key = cpu, common >> 16
        prefix = self._prefixes.get(key)
        if prefix is None:
            prefix = self._prefixes[key] = self._prefix(*key)
        head = prefix + secs
        size = len(head) + len(": ") + (6 if self.in_ns else 12)
        return head, f": {self._fitted(text, size, page, record)}"

    def _fitted(self, text: str, before: int, pages: memoryview, record: int) -> str:
        """The text of a record, cut off if it is too long for a line.

        Kernel: trace_seq_printf(), s_show()
        """
        if before + len(text) < LINE_MAX:
            return text
        (number,) = _U16.unpack_from(pages, record)
        event = self._tr.events.by_id(number)
        if event is None:
            return text
        left, fitted = LINE_MAX - before, ""
        for piece in event.pieces(self._symbol)(pages, record).split("\0"):
            if len(piece) > left - (piece not in _WHOLE):
                return fitted + (TOO_BIG if left >= len(TOO_BIG) else "")
            fitted += piece
            left -= len(piece)
        return fitted

    def line(self, ts: int, parts: _Parts) -> str:
        """A line whose time is not in ns, or that has none."""
        head, tail = parts
        return f"{head}{ts:12d}{tail}" if self._context_info else tail

    def _prefix(self, cpu: int, common: int) -> str:
        """The text before the time; common: the record's flags, preempt count, pid."""
        pid = common >> 16
        pid -= (pid & 0x8000_0000) << 1
        comm = self._comms[pid] = self._tr.find_cmdline(pid)
        flags = ""
        if self._irq_info:
            flags = lat_fmt(common & 0xFF, common >> 8 & 0xFF)
        return f"{comm:>16}-{pid:<7d} [{cpu:03d}] {flags} "


class _CpuLines:
    """Makes the lines of one CPU's records."""

    def __init__(self, lines: Lines, cpu: int, batch: int) -> None:
        self._lines = lines
        self._cpu = cpu
        self._batch = batch
        self._know(lines.known.get(cpu) or Known(0, 0, "", {}))
        # the page at hand: its place in the ring, and its data
        self._base = 0
        self._raw = b""
        self._view = memoryview(b"")
        self._words: list[int] = []

    def _know(self, known: Known) -> None:
        self._second, self._next_second, self._secs, self._known = known

    def batches(self, pages: Iterable[Page]) -> Iterator[list[Entry]]:
        for page in pages:
            self._base, self._raw = page.number * PAGE_SIZE, page.data
            self._view, self._words = memoryview(page.data), page.words()
            i, ts = page.first, page.ts
            if ts < self._second:  # a reader has gone back
                self._next_second = 0
            while i < page.end:
                batch, i, ts = self._alike(i, page.end, ts)
                if not batch:
                    break
                yield batch
            yield from self._any(i, page.end, ts)

    def _alike(self, i: int, end: int, ts: int) -> tuple[list[Entry], int, int]:
        """Records from word i on, if of one size: (records, next i, time there).

        There are none if sizes differ or if another second begins among them.
        """
        words, raw = self._words, self._raw
        kind = words[i] & 31
        if not 0 < kind < PADDING or not self._lines.in_ns:
            return [], i, ts
        step = kind + 1
        end = min(end, i + self._batch * step)
        heads = words[i:end:step]
        times = list(accumulate([head >> 5 for head in heads], initial=ts))
        if {head & 31 for head in heads} != {kind} or times[-1] >= self._next_second:
            return [], i, ts
        del times[0]
        places = range(4 * i + 4, 4 * end, 4 * step)
        size, known = 4 * kind, self._known
        try:
            found = [known[raw[at : at + size]] for at in places]
        except KeyError:
            found = [self._parts(at, at + size) for at in places]
        second = self._second
        lines = [
            f"{head}{str((time - second) // 1000).zfill(6)}{tail}"
            for time, (head, tail) in zip(times, found, strict=True)
        ]
        first = self._base + 4 * i + 4
        starts = count(first, 4 * step)
        ends = count(first + size, 4 * step)
        batch = zip(times, repeat(self._cpu), lines, starts, ends, strict=False)
        return list(batch), i + step * len(heads), times[-1]

    def _any(self, i: int, end: int, ts: int) -> Iterator[list[Entry]]:
        """Records of any size from word i on."""
        base, cpu, line = self._base, self._cpu, self._line
        found: list[Entry] = []
        for time, start, stop in entries(self._words, i, end, ts):
            place, last = 4 * start, 4 * stop
            text = line(time, place, last)
            found.append((time, cpu, text, base + place, base + last))
            if len(found) == self._batch:
                yield found
                found = []
        if found:
            yield found

    def _line(self, ts: int, start: int, end: int) -> str:
        """The line of a record that is at these bytes of the page."""
        if ts >= self._next_second:
            secs, second = self._lines.second(ts)
            known = Known(second, second + NSEC, secs, {})
            self._lines.known[self._cpu] = known
            self._know(known)
        parts = self._known.get(self._raw[start:end]) or self._parts(start, end)
        if self._lines.in_ns:
            return parts[0] + str((ts - self._second) // 1000).zfill(6) + parts[1]
        return self._lines.line(ts, parts)

    def _parts(self, start: int, end: int) -> _Parts:
        data = self._raw[start:end]
        parts = self._known.get(data)
        if parts is None:
            parts = self._lines.parts(self._cpu, self._view, start, end, self._secs)
            if len(self._known) < KNOWN_MAX:
                self._known[data] = parts
        return parts


def _unknown(number: int) -> Callable[[memoryview, int], str]:
    return lambda pages, record: f"Unknown type {number}\n"


def lat_fmt(flags: int, preempt_count: int) -> str:
    """The five characters of the flags column.  Kernel: trace_print_lat_fmt()"""
    bh_off, irqs_off = flags & _BH_OFF, flags & _IRQS_OFF
    irqs = ("D" if bh_off else "d") if irqs_off else ("b" if bh_off else ".")
    resched = {
        _NEED_RESCHED | _PREEMPT_RESCHED: "N",
        _NEED_RESCHED: "n",
        _PREEMPT_RESCHED: "p",
    }.get(flags & (_NEED_RESCHED | _PREEMPT_RESCHED), ".")
    hard, soft = flags & _HARDIRQ, flags & _SOFTIRQ
    if flags & _NMI:
        context = "Z" if hard else "z"
    elif hard:
        context = "H" if soft else "h"
    else:
        context = "s" if soft else "."
    low, high = preempt_count & 0xF, preempt_count >> 4
    depth = (f"{low:x}" if low else ".") + (f"{high:x}" if high else ".")
    return irqs + resched + context + depth


def symbol_text(tr: TraceArray) -> SymbolText:
    """Make the function that prints addresses as the options say.

    Kernel: seq_print_ip_sym()
    """
    symbols, options = tr.st.machine.kallsyms, tr.options
    always, sym_addr = options["sym-offset"], options["sym-addr"]
    trampoline = tr.runtime.symbols["kp_ret_trampoline"]

    def symbol(addr: int, offset: bool) -> str:
        text = ip_sym(symbols, addr, offset or always, trampoline)
        return f"{text} <{addr:016x}>" if sym_addr and addr else text

    return symbol
