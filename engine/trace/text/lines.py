# SPDX-License-Identifier: GPL-2.0-or-later
"""Turns records into the lines of trace and trace_pipe, many at a time."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Sequence
from weakref import ReferenceType, ref

from kpfs.base import abi
from kpfs.base.units import NSEC
from kpfs.engine.trace.array.trace_array import TraceArray
from kpfs.engine.trace.event.trace_event import Printer, SymbolText, TraceEvent
from kpfs.engine.trace.ring.cpu_ring import CopiedPage
from kpfs.engine.trace.symbols import ip_sym
from kpfs.engine.trace.text.blocks import Block, SourceRecords
from kpfs.engine.trace.text.page_records import PageRecords, page_records

_Parts = tuple[str, str]  # a line's text before and behind its time

KNOWN_MAX = 1 << 16
KEPT_MAX = 1 << 12  # from one read() to the next
KEPT_TEXT = 1 << 24  # characters of blocks, likewise
FEW_TEXT = 1 << 20  # characters that are kept although nobody reads
PAGE_TEXT = 1 << 14  # characters of a page, about
FEW_PAGES = 16
NEW_MAX = 256  # pages, or blocks, that are noted at a time
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


class Lines:
    """Makes lines of records, for all that read a trace at a time.

    It remembers the text that it made of which bytes, as most records differ only in
    time, and that of whole blocks, as others read them, too.

    Text may be made by several threads at once, without the lock.  What they make they
    only note; the next call of current() puts it in order.
    Kernel: print_trace_line(), trace_print_context()
    """

    def __init__(
        self, tr: TraceArray, in_ns: bool | None = None, kept: int = KEPT_TEXT
    ) -> None:
        """in_ns: whether times are in ns, if not as the clock now says.

        kept: how many characters of blocks it keeps.
        """
        self._tr = tr
        self._made_for = self._surroundings()
        self._events: dict[int, TraceEvent | None] = {}  # by the number in records
        # of tr.events, at which these were found to be as they are here, and how many
        self._seen_events = tr.events.epoch, 0
        # what stands at the places of their names, by pid
        self._comms: dict[int, tuple[int, bytes]] = {}
        # by data, of each CPU, and for seconds that have so many digits
        self.known: dict[tuple[int, int], dict[bytes, _Parts]] = {}
        self._prefixes: dict[tuple[int, int], str] = {}
        self._printers: dict[int, Printer] = {}
        self._irq_info = tr.options["irq-info"]
        self._symbol = symbol_text(tr)
        self._context_info = tr.options["context-info"]
        self.wants_ns = tr.ring.in_ns if in_ns is None else in_ns
        self.in_ns = self._context_info and self.wants_ns
        self._kept = kept
        self._pages: dict[tuple[int, int], PageRecords] = {}  # by CPU and place
        self._blocks: dict[tuple[int, int, int], Block] = {}  # by the first record
        self._size = 0  # characters of these
        # those made since it was put in order
        self._new_pages: deque[tuple[tuple[int, int], PageRecords]] = deque(
            maxlen=NEW_MAX
        )
        self._new_blocks: deque[tuple[tuple[int, int, int], Block]] = deque(
            maxlen=NEW_MAX
        )

    def current(self) -> bool:
        """Return True if it would make that text once more.  Context: control."""
        if self._made_for != self._surroundings() or len(self._comms) > KEPT_MAX:
            return False
        tr, comms = self._tr, self._comms.copy()
        events, epoch = self._events, tr.events.epoch
        if (epoch, len(events)) != self._seen_events:
            events = events.copy()
            if any(tr.events.by_id(n) is not event for n, event in events.items()):
                return False
            self._seen_events = epoch, len(events)
        stands = tr.runtime.cmdline_at
        if any(stands(pid) != found for pid, found in comms.items()):
            return False
        self.put_in_order()
        return True

    def _surroundings(self) -> tuple[int, list[bool]]:
        tr = self._tr
        return tr.st.machine.kallsyms.generation, list(tr.options.values.values())

    def put_in_order(self) -> int:
        """Keep what was made last, and not too much of all; return its characters."""
        made = bool(self._new_pages or self._new_blocks)
        while self._new_pages:
            at, page = self._new_pages.popleft()
            self._pages.pop(at, None)
            self._pages[at] = page
        while len(self._pages) > FEW_PAGES + self._kept // PAGE_TEXT:
            del self._pages[next(iter(self._pages))]
        while self._new_blocks:
            key, block = self._new_blocks.popleft()
            old = self._blocks.pop(key, None)
            self._size += block.size - (old.size if old else 0)
            self._blocks[key] = block
        while self._size > self._kept:
            self._size -= self._blocks.pop(next(iter(self._blocks))).size
        if made and sum(map(len, self.known.copy().values())) > KEPT_MAX:
            self.known = {}
        return self._size

    def retire(self) -> None:
        """Keep nothing any more, as others are made of what there is by now.

        Readers that have it still may go on.  Context: control.
        """
        self._kept = self._size = 0
        self._pages.clear()
        self._blocks.clear()
        self._new_pages.clear()
        self._new_blocks.clear()
        self._printers.clear()
        self.known = {}

    # ---- pages and blocks

    def records(self, cpu: int, page: CopiedPage) -> PageRecords:
        """Return the records of a page from its begin to page.end."""
        key = cpu, page.number
        known = self._pages.get(key)
        found = page_records(page, known)
        if found is not known:
            self._new_pages.append((key, found))
        return found

    def block(self, cpus: Sequence[int], parts: list[SourceRecords]) -> Block:
        """Return the text of parts, each of one of the CPUs that are read."""
        first = parts[0]
        key = cpus[first.source], first.records.page, first.first
        block = self._blocks.get(key)
        if block and len(block.parts) == len(parts):
            if all(map(SourceRecords.same, block.parts, parts)):
                return block
        block = Block(parts, lambda part: self.lines(cpus[part.source], part))
        if self._kept:
            self._new_blocks.append((key, block))
        return block

    def lines(self, cpu: int, part: SourceRecords) -> list[str]:
        """Return the lines of some records of a CPU."""
        _, records, first, last = part
        times, body = records.times[first:last], records.body
        starts, stops = records.starts[first:last], records.stops[first:last]
        data = [body[i:j] for i, j in zip(starts, stops, strict=True)]
        second = (times[0] + 500) // NSEC
        zero = (second - 1) * NSEC - 500  # so that numbers of us have 7 digits
        if not self.in_ns or times[-1] >= zero + 2 * NSEC:
            return [
                self._line(cpu, *record) for record in zip(times, data, strict=True)
            ]
        secs = f"{second:5d}."
        width = len(secs) + 6
        known = self.known.setdefault((cpu, width), {}).get
        found = [known(one) or self._known_parts(cpu, one, width) for one in data]
        return [
            f"{before}{secs}{str((time - zero) // 1000)[1:]}{behind}"
            for time, (before, behind) in zip(times, found, strict=True)
        ]

    def _line(self, cpu: int, ts: int, data: bytes) -> str:
        time = self.time(ts)
        before, behind = self._known_parts(cpu, data, len(time))
        return f"{before}{time}{behind}"

    def _known_parts(self, cpu: int, data: bytes, width: int) -> _Parts:
        known = self.known.setdefault((cpu, width), {})
        parts = known.get(data)
        if parts is None:
            parts = self.parts(cpu, memoryview(data), 0, len(data), width)
            if len(known) < KNOWN_MAX:
                known[data] = parts
        return parts

    # ---- records

    def alone(self, ts: int, cpu: int, record: bytes) -> str:
        """Return the line of one record."""
        return self._line(cpu, ts, record)

    def time(self, ts: int) -> str:
        """Return the text of a time.  Kernel: trace_print_time()"""
        if not self._context_info:
            return ""
        if not self.in_ns:
            return f"{ts:12d}"
        second, rest = divmod(ts + 500, NSEC)
        return f"{second:5d}.{rest // 1000:06d}"

    def parts(
        self, cpu: int, page: memoryview, record: int, end: int, width: int
    ) -> _Parts:
        """Return a line's text before and behind its time of so many characters."""
        (common,) = _U64.unpack_from(page, record)
        number = common & 0xFFFF
        show = self._printers.get(number)
        if show is None:
            event = self._event(number)
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
        size = len(prefix) + width + len(": ")
        return prefix, f": {self._fitted(text, size, page, record)}"

    def _fitted(self, text: str, before: int, pages: memoryview, record: int) -> str:
        """Return a record's text, cut to a line's room.  Kernel: trace_seq_printf()"""
        if before + len(text) < LINE_MAX:
            return text
        (number,) = _U16.unpack_from(pages, record)
        event = self._event(number)
        if event is None:
            return text
        left, fitted = LINE_MAX - before, ""
        for piece in event.pieces(self._symbol)(pages, record).split("\0"):
            if len(piece) > left - (piece not in _WHOLE):
                return fitted + (TOO_BIG if left >= len(TOO_BIG) else "")
            fitted += piece
            left -= len(piece)
        return fitted

    def _prefix(self, cpu: int, common: int) -> str:
        """Return the text before the time; common: the flags, preempt count, pid."""
        pid = common >> 16
        pid -= (pid & 0x8000_0000) << 1
        comm = self._comm(pid)
        flags = ""
        if self._irq_info:
            flags = lat_fmt(common & 0xFF, common >> 8 & 0xFF)
        return f"{comm:>16}-{pid:<7d} [{cpu:03d}] {flags} "

    # ---- what may change: current() must see all that text was made of.  So each is
    # looked up again once it is noted, as current() may have looked in between.

    def _event(self, number: int) -> TraceEvent | None:
        while True:
            event = self._events[number] = self._tr.events.by_id(number)
            if event is self._tr.events.by_id(number):
                return event

    def _comm(self, pid: int) -> str:
        while True:
            stands = self._tr.runtime.cmdline_at(pid)
            comm = self._tr.find_cmdline(pid)
            self._comms[pid] = stands
            if stands == self._tr.runtime.cmdline_at(pid):
                return comm


class SharedLines:
    """The Lines that all readers of one file share.

    They are kept as long as there are readers, and for the next one if they are few.
    """

    def __init__(self) -> None:
        self._last: ReferenceType[Lines] | None = None
        self._few: Lines | None = None

    def get(self, tr: TraceArray, in_ns: bool) -> Lines:
        """Return the lines to use now; in_ns: see Lines.  Context: control."""
        lines = self._last() if self._last else None
        if lines is None or lines.wants_ns != in_ns or not lines.current():
            if lines is not None:  # its readers may wait for long
                lines.retire()
            lines = Lines(tr, in_ns)
            self._last = ref(lines)
        return lines

    def keep(self) -> None:
        """Keep the lines if they are few, as a reader has ended.  Context: control."""
        lines = self._last() if self._last else None
        self._few = lines if lines and lines.put_in_order() <= FEW_TEXT else None


def _unknown(number: int) -> Callable[[memoryview, int], str]:
    return lambda pages, record: f"Unknown type {number}\n"


def lat_fmt(flags: int, preempt_count: int) -> str:
    """Return the five characters of the flags column.  Kernel: trace_print_lat_fmt()"""
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
    """Make the function that prints addresses.  Kernel: seq_print_ip_sym()"""
    symbols, options = tr.st.machine.kallsyms, tr.options
    always, sym_addr = options["sym-offset"], options["sym-addr"]
    trampoline = tr.runtime.symbols["arch_rethook_trampoline"]

    def symbol(addr: int, offset: bool) -> str:
        text = ip_sym(symbols, addr, offset or always, trampoline)
        return f"{text} <{addr:016x}>" if sym_addr and addr else text

    return symbol
