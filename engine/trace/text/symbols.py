# SPDX-License-Identifier: GPL-2.0-or-later
"""Addresses, pointers and flags of records as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kpfs.engine.ktypes import MASK64
from kpfs.engine.machine import Kallsyms

if TYPE_CHECKING:
    from kpfs.engine.trace.array import TraceArray
    from kpfs.engine.trace.event.trace_event import SymbolText

PTR_KEY = 0x9E3779B97F4A7C15
MAX_ERRNO = 4095

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


def ip_sym(kallsyms: Kallsyms, addr: int, offset: bool, trampoline: int = 0) -> str:
    """An address in a record.  Kernel: seq_print_ip_sym()"""
    if not addr:
        return "0"
    if addr == trampoline:
        return "[unknown/kretprobe'd]"
    if offset:
        return kallsyms.sprint_symbol(addr)
    symbol = kallsyms.symbol_at(addr)
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
    kallsyms, options = tr.st.machine.kallsyms, tr.options
    always, sym_addr = options["sym-offset"], options["sym-addr"]
    trampoline = tr.runtime.symbols["kp_ret_trampoline"]

    def symbol(addr: int, offset: bool) -> str:
        text = ip_sym(kallsyms, addr, offset or always, trampoline)
        return f"{text} <{addr:016x}>" if sym_addr and addr else text

    return symbol


def string_at(pages: memoryview, start: int) -> str:
    """A string in the last record of pages that end with it; its NUL may lack."""
    return bytes(pages[start:]).partition(b"\0")[0].decode("latin-1")
