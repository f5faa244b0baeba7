# SPDX-License-Identifier: GPL-2.0-or-later
"""The text of trace and trace_pipe."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.ktypes import MASK64
from engine.machine import Machine
from engine.trace.ring import Record
from engine.trace.ring_buffer import Rings

if TYPE_CHECKING:
    from engine.trace.array import TraceArray
    from engine.trace.events import Printer, SymbolText

# Linux gives at most a page per read(); more at once spares a reader the round trips
PIPE_READ_MAX = 65535
PTR_KEY = 0x9E3779B97F4A7C15
MAX_ERRNO = 4095

_U64 = struct.Struct("<Q")
_HEADER = """\
# tracer: {tracer}
#
"""
_ENTRIES = """\
# entries-in-buffer/entries-written: {entries}/{written}   #P:{cpus}
#
"""
_COLUMNS_IRQ = """\
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
"""
_COLUMNS = """\
#           TASK-PID     CPU#     TIMESTAMP  FUNCTION
#              | |         |         |         |
"""

# struct trace_entry.flags.  Kernel: enum trace_flag_type
_IRQS_OFF, _NEED_RESCHED, _HARDIRQ, _SOFTIRQ = 0x01, 0x04, 0x08, 0x10
_PREEMPT_RESCHED, _NMI, _BH_OFF = 0x20, 0x40, 0x80


def pointer_id(addr: int) -> str:
    """What %p prints: a hash that does not tell the address.

    Kernel: ptr_to_id()
    """
    if addr == 0 or addr > MASK64 - MAX_ERRNO:
        return f"{addr:016x}"
    value = (addr ^ PTR_KEY) & MASK64
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK64
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK64
    return f"{(value ^ value >> 31) & 0xFFFF_FFFF:016x}"


def sprint_symbol(machine: Machine, addr: int) -> str:
    """name+0xoffset/0xsize [module].  Kernel: sprint_symbol()"""
    symbol = machine.symbol_at(addr)
    if symbol is None:
        return f"{addr:#x}"
    module = f" [{symbol.module}]" if symbol.module else ""
    return f"{symbol.name}+{addr - symbol.addr:#x}/{symbol.size:#x}{module}"


def ip_sym(machine: Machine, addr: int, offset: bool) -> str:
    """An address in a record.  Kernel: seq_print_ip_sym()"""
    if not addr:
        return "0"
    if addr == machine.runtime_symbols().get("kp_ret_trampoline"):
        return "[unknown/kretprobe'd]"
    if offset:
        return sprint_symbol(machine, addr)
    symbol = machine.symbol_at(addr)
    return symbol.name if symbol else f"0x{addr:08x}"


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
    """How the options say that addresses are printed.  Kernel: seq_print_ip_sym()."""
    machine, options = tr.st.machine, tr.options
    always, sym_addr = options["sym-offset"], options["sym-addr"]

    def symbol(addr: int, offset: bool) -> str:
        text = ip_sym(machine, addr, offset or always)
        return f"{text} <{addr:016x}>" if sym_addr and addr else text

    return symbol


def line_maker(
    tr: TraceArray, rings: Rings | None = None
) -> Callable[[int, int, int], str]:
    """A function for the line of a record: (time, CPU, place in the CPU's pages).

    It remembers what lines have in common: good for one reading of the trace.
    Kernel: print_trace_line(), trace_print_context()
    """
    prefixes: list[dict[int, str]] = [{} for _ in tr.ring.cpus]
    pages_of = [ring.pages for ring in (rings or tr.ring).cpus]
    printers: dict[int, Printer] = {}
    unpack = _U64.unpack_from
    irq_info, symbol = tr.options["irq-info"], symbol_text(tr)

    def prefix(cpu: int, common: int) -> str:
        pid = common >> 32
        pid -= (pid & 0x8000_0000) << 1
        comm = tr.find_cmdline(pid)
        flags = lat_fmt(common >> 16 & 0xFF, common >> 24 & 0xFF) if irq_info else ""
        text = f"{comm:>16}-{pid:<7d} [{cpu:03d}] {flags} "
        prefixes[cpu][common] = text
        return text

    def printer(number: int) -> Printer:
        event = tr.events.by_id(number)
        show = event.printer(symbol) if event else _unknown(number)
        printers[number] = show
        return show

    def line(time: int, cpu: int, record: int) -> str:
        pages = pages_of[cpu]
        (common,) = unpack(pages, record)
        head = prefixes[cpu].get(common) or prefix(cpu, common)
        show = printers.get(common & 0xFFFF) or printer(common & 0xFFFF)
        us = (time + 500) // 1000
        secs = us // 1000000
        return f"{head}{secs:5d}.{us - secs * 1000000:06d}: {show(pages, record)}"

    def line_of_counter(time: int, cpu: int, record: int) -> str:
        pages = pages_of[cpu]
        (common,) = unpack(pages, record)
        head = prefixes[cpu].get(common) or prefix(cpu, common)
        show = printers.get(common & 0xFFFF) or printer(common & 0xFFFF)
        return f"{head}{time:12d}: {show(pages, record)}"

    def bare_line(_time: int, cpu: int, record: int) -> str:
        pages = pages_of[cpu]
        number = unpack(pages, record)[0] & 0xFFFF
        return (printers.get(number) or printer(number))(pages, record)

    if not tr.options["context-info"]:
        return bare_line
    return line if tr.ring.in_ns else line_of_counter


def _unknown(number: int) -> Callable[[memoryview, int], str]:
    return lambda pages, record: f"Unknown type {number}\n"


def trace_header(tr: TraceArray, rings: Rings | None = None) -> str:
    """The comment lines of trace.  Kernel: trace_default_header()"""
    ring = rings or tr.ring
    text = _HEADER.format(tracer=tr.current_tracer)
    if not tr.options["context-info"]:
        return text
    entries = ring.entries
    text += _ENTRIES.format(
        entries=entries, written=entries + ring.overruns, cpus=tr.st.machine.nr_cpus
    )
    return text + (_COLUMNS_IRQ if tr.options["irq-info"] else _COLUMNS)


def trace_text(
    tr: TraceArray, cpu: int | None = None, rings: Rings | None = None
) -> str:
    """trace of all CPUs or of one; the records stay in the buffer.

    rings: what to read instead of those that are recorded to.
    Context: control.  Kernel: s_show()
    """
    out = [trace_header(tr, rings)]
    out += record_lines(tr, cpu, rings or tr.ring)
    return "".join(out)


def record_lines(tr: TraceArray, cpu: int | None, rings: Rings) -> list[str]:
    """The records of all CPUs or of one, as text."""
    out = []
    annotate = rings.overruns > 0 and tr.options["annotate"]
    started: set[int] = set()
    line = line_maker(tr, rings)
    for time, on, record, _ in rings.merged(cpu):
        if annotate and on not in started:
            if started:
                out.append(f"##### CPU {on} buffer started ####\n")
            started.add(on)
        out.append(line(time, on, record))
    return out


class TracePipe:
    """An open trace_pipe.  Kernel: struct trace_iterator"""

    def __init__(self, ts: TraceArray, cpu: int | None = None) -> None:
        """Of all CPUs or of one."""
        self._ts = ts
        self._cpu = cpu
        self._pending = ""
        self._was_read = False

    def ready(self) -> bool:
        """Whether read() would give something."""
        rings = self._ts.ring.cpus
        if self._cpu is not None:
            rings = [rings[self._cpu]]
        return bool(self._pending) or any(ring.entries for ring in rings)

    def at_end(self) -> bool:
        """Whether a reader that finds nothing gets end of file instead of waiting."""
        return self._was_read and not self._ts.ring.on

    def read(self, count: int) -> str:
        """Up to count characters of whole lines or of what is left of one.

        The records are taken out of the buffer.  "": there are none.
        Context: control.  Kernel: tracing_read_pipe()
        """
        if not self._pending:
            self._pending = self._fill(min(count, PIPE_READ_MAX))
        text, self._pending = self._pending[:count], self._pending[count:]
        if text:
            self._was_read = True
        return text

    def _fill(self, count: int) -> str:
        """Lines of records until there are count characters."""
        rings = self._ts.ring.cpus
        line = line_maker(self._ts)
        lost = [ring.overrun - ring.overrun_seen for ring in rings]
        taken = [0] * len(rings)
        last: list[Record | None] = [None] * len(rings)
        out: list[str] = []
        used = 0
        for entry in self._ts.ring.by_time(self._cpu):
            time, cpu, record, _ = entry
            text = line(time, cpu, record)
            if lost[cpu]:
                text = f"CPU:{cpu} [LOST {lost[cpu]} EVENTS]\n{text}"
            used += len(text)
            if used > PIPE_READ_MAX and out:
                break
            out.append(text)
            lost[cpu] = 0
            taken[cpu] += 1
            last[cpu] = entry
            if used >= count:
                break
        for ring, number, newest in zip(rings, taken, last, strict=True):
            if newest:
                ring.overrun_seen = ring.overrun
                ring.consume(number, newest)
        return "".join(out)
