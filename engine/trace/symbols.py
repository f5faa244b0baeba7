# SPDX-License-Identifier: GPL-2.0-or-later
"""Print addresses and pointers."""

from __future__ import annotations

from kpfs.base.ktypes import MASK64
from kpfs.base.units import MAX_ERRNO
from kpfs.engine.machine import Kallsyms

PTR_KEY = 0x9E3779B97F4A7C15


def pointer_id(addr: int) -> str:
    """Return what %p prints: a hash that hides the address.  Kernel: ptr_to_id()"""
    if addr == 0 or addr > MASK64 - MAX_ERRNO:
        return f"{addr:016x}"
    value = (addr ^ PTR_KEY) & MASK64
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK64
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK64
    return f"{(value ^ value >> 31) & 0xFFFF_FFFF:016x}"


def ip_sym(symbols: Kallsyms, addr: int, offset: bool, trampoline: int = 0) -> str:
    """Return the text of an address in a record.  Kernel: seq_print_ip_sym()"""
    if not addr:
        return "0"
    if addr == trampoline:
        return "[unknown/kretprobe'd]"
    if offset:
        return symbols.sprint_symbol(addr)
    symbol = symbols.symbol_at(addr)
    return symbol.name if symbol else f"0x{addr:08x}"
