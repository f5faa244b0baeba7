# SPDX-License-Identifier: GPL-2.0-or-later
"""Turns records into the lines of trace and trace_pipe, many at a time."""

from __future__ import annotations

import struct
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from weakref import ReferenceType, ref

from kpfs import abi
from kpfs.engine.trace.array.trace_array import TraceArray
from kpfs.engine.trace.event.trace_event import Printer, SymbolText, TraceEvent
from kpfs.engine.trace.ring.cpu_ring import (
    BUF_PAGE_HDR_SIZE,
    HEADER_WORDS,
    Page,
    entries,
)
from kpfs.engine.trace.symbols import ip_sym
from kpfs.engine.trace.text.page_text import PageText

_Parts = tuple[str, str]  # of a line: the text before and behind the time

BATCH = 128  # records that are looked at together
KNOWN_MAX = 1 << 16
KEPT_MAX = 1 << 12  # from one read() to the next
KEPT_TEXT = 1 << 24  # characters of pages, likewise
NOTED_MAX = 128  # pages
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


class Lines:
    """Makes lines of records, for those who read a trace at the same time.

    It remembers the text that it made of which bytes, as most records differ only in
    time, and the text of whole pages, as others read them, too.

    Text may be made by several threads at once, without the lock.  What they make they
    only note; it is put in order by the next one who calls current().
    Kernel: print_trace_line(), trace_print_context()
    """

    def __init__(
        self, tr: TraceArray, in_ns: bool | None = None, kept: int = KEPT_TEXT
    ) -> None:
        """in_ns: whether times are in ns, if not as the clock now says.

        kept: how many characters of whole pages it keeps.
        """
        self._tr = tr
        self._made_for = self._surroundings()
        self._seen_at = self._names()
        self._events: dict[int, TraceEvent | None] = {}  # by the number in records
        self._comms: dict[int, str] = {}
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
        self._pages: dict[tuple[int, int], PageText] = {}  # by CPU and place
        self._size = 0  # characters of these
        # what was made since it was put in order
        self._made: deque[tuple[tuple[int, int], PageText]] = deque(maxlen=NOTED_MAX)

    def current(self) -> bool:
        """Whether it would still give the same text.  Context: control."""
        if self._made_for != self._surroundings() or len(self._comms) > KEPT_MAX:
            return False
        if self._seen_at != (names := self._names()):
            tr, events, comms = self._tr, self._events.copy(), self._comms.copy()
            if any(tr.events.by_id(n) is not event for n, event in events.items()):
                return False
            if any(tr.find_cmdline(pid) != comm for pid, comm in comms.items()):
                return False
            self._seen_at = names
        self._put_in_order()
        return True

    def _surroundings(self) -> tuple[int, list[bool]]:
        tr = self._tr
        return tr.st.machine.kallsyms.generation, list(tr.options.values.values())

    def _names(self) -> tuple[int, bytes]:
        """What changes when the events or the names of tasks do."""
        return self._tr.events.epoch, self._tr.runtime.cmdline_table()

    def _put_in_order(self) -> None:
        """Keep the pages that were made last, and not too much of all."""
        while self._made:
            key, page = self._made.popleft()
            old = self._pages.pop(key, None)
            self._size += len(page.text) - (len(old.text) if old else 0)
            self._pages[key] = page
        while self._size > self._kept:
            self._size -= len(self._pages.pop(next(iter(self._pages))).text)
        if sum(map(len, self.known.copy().values())) > KEPT_MAX:
            self.known = {}

    # ---- pages

    def pages(self, cpu: int, pages: Iterable[Page]) -> Iterator[tuple[Page, PageText]]:
        """Pages of a CPU, each with the lines of all records on it."""
        return ((page, self.page(cpu, page)) for page in pages)

    def page(self, cpu: int, page: Page) -> PageText:
        """The lines of all records on a page, from its begin to page.end."""
        body = page.data[BUF_PAGE_HDR_SIZE : 4 * page.end]
        key = cpu, page.number
        made = self._pages.get(key)
        if made is None or made.stamp != page.stamp or not body.startswith(made.body):
            made = PageText.empty(page.stamp)
        if made.body != body:
            made = _PageLines(self, cpu, page).after(made, body)
            self._made.append((key, made))
        return made

    # ---- records

    def alone(self, ts: int, cpu: int, record: bytes) -> str:
        """The line of one record."""
        time = self.time(ts)
        before, behind = self.parts(cpu, memoryview(record), 0, len(record), len(time))
        return before + time + behind

    def time(self, ts: int) -> str:
        """The text of a time.  Kernel: trace_print_time()"""
        if not self._context_info:
            return ""
        if not self.in_ns:
            return f"{ts:12d}"
        second, rest = divmod(ts + 500, NSEC)
        return f"{second:5d}.{rest // 1000:06d}"

    def parts(
        self, cpu: int, page: memoryview, record: int, end: int, width: int
    ) -> _Parts:
        """The text of a line before and behind its time, of so many characters."""
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
        """The text of a record, cut off if it is too long for a line.

        Kernel: trace_seq_printf(), s_show()
        """
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
        """The text before the time; common: the record's flags, preempt count, pid."""
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
            comm = self._comms[pid] = self._tr.find_cmdline(pid)
            if comm == self._tr.find_cmdline(pid):
                return comm


class SharedLines:
    """The Lines that those use who read one file, as long as somebody does."""

    def __init__(self) -> None:
        self._last: ReferenceType[Lines] | None = None

    def get(self, tr: TraceArray, in_ns: bool) -> Lines:
        """Those to use now; in_ns: see Lines.  Context: control."""
        lines = self._last() if self._last else None
        if lines is None or lines.wants_ns != in_ns or not lines.current():
            lines = Lines(tr, in_ns)
            self._last = ref(lines)
        return lines


class _PageLines:
    """Makes the lines of the records on one page."""

    def __init__(self, lines: Lines, cpu: int, page: Page) -> None:
        self._lines = lines
        self._cpu = cpu
        self._raw = page.data
        self._view = memoryview(page.data)
        self._words = page.words()
        self._times: list[int] = []
        self._starts: list[int] = []  # words
        self._stops: list[int] = []
        self._made: list[str] = []

    def after(self, made: PageText, body: bytes) -> PageText:
        """What there was, and the lines of what has come; body: all of the page's."""
        ts = made.times[-1] if made.times else made.stamp
        i, end = (HEADER_WORDS + len(b) // 4 for b in (made.body, body))
        while i < end and self._lines.in_ns and self._alike(i, end, ts):
            i, ts = self._stops[-1], self._times[-1]
        self._any(i, end, ts)
        ends = list(accumulate(map(len, self._made), initial=len(made.text)))
        return PageText(
            made.stamp,
            body,
            made.times + array("Q", self._times),
            made.starts + array("H", self._starts),
            made.stops + array("H", self._stops),
            made.ends + array("I", ends[1:]),
            made.text + "".join(self._made),
        )

    def _alike(self, i: int, end: int, ts: int) -> bool:
        """Make lines of some records from word i on, if they are of one size.

        False: sizes differ, or another second begins among them.
        """
        words, raw = self._words, self._raw
        kind = words[i] & 31
        if not 0 < kind < PADDING:
            return False
        step = kind + 1
        end = min(end, i + BATCH * step)
        heads = words[i:end:step]
        times = list(accumulate([head >> 5 for head in heads], initial=ts))
        del times[0]
        second = (times[0] + 500) // NSEC
        first = second * NSEC - 500  # time that is rounded to it
        if {head & 31 for head in heads} != {kind} or times[-1] >= first + NSEC:
            return False
        secs = f"{second:5d}."
        size, width = 4 * kind, len(secs) + 6
        known = self._known(width)
        places = range(4 * i + 4, 4 * end, 4 * step)
        try:
            found = [known[raw[at : at + size]] for at in places]
        except KeyError:
            found = [self._parts(width, at, at + size) for at in places]
        zero = first - NSEC  # so that each number has 7 digits
        self._made += [
            f"{before}{secs}{str((time - zero) // 1000)[1:]}{behind}"
            for time, (before, behind) in zip(times, found, strict=True)
        ]
        self._times += times
        self._starts += range(i + 1, end, step)
        self._stops += range(i + step, end + 1, step)
        return True

    def _any(self, i: int, end: int, ts: int) -> None:
        """Make lines of records of any size from word i on."""
        for time, start, stop in entries(self._words, i, end, ts):
            text = self._lines.time(time)
            before, behind = self._parts(len(text), 4 * start, 4 * stop)
            self._made.append(f"{before}{text}{behind}")
            self._times.append(time)
            self._starts.append(start)
            self._stops.append(stop)

    def _known(self, width: int) -> dict[bytes, _Parts]:
        """What is known of the data of records whose time has so many characters."""
        return self._lines.known.setdefault((self._cpu, width), {})

    def _parts(self, width: int, start: int, end: int) -> _Parts:
        """The text of the record at these bytes of the page, around its time."""
        data, known = self._raw[start:end], self._known(width)
        parts = known.get(data)
        if parts is None:
            parts = self._lines.parts(self._cpu, self._view, start, end, width)
            if len(known) < KNOWN_MAX:
                known[data] = parts
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
