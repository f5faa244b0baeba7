# SPDX-License-Identifier: GPL-2.0-or-later
"""The blacklist: NOKPROBE functions, __kprobes, noinstr and entry text."""

from __future__ import annotations

from bisect import bisect_right

from kpfs.base.ktypes import KAddr
from kpfs.engine.state import State


def _within_kprobe_blacklist(st: State, addr: KAddr) -> bool:
    if st.arch.arch_within_kprobe_blacklist(addr):
        return True
    i = bisect_right(st.blacklist_starts, addr) - 1
    return i >= 0 and addr < st.blacklist_ends[i]


def within_kprobe_blacklist(st: State, addr: KAddr) -> bool:
    """Return True if addr, or the function it is a split-off part of, is blacklisted.

    Context: control.  Kernel: within_kprobe_blacklist()
    """
    if _within_kprobe_blacklist(st, addr):
        return True
    # f.cold and f.part.0 are judged by f too
    symbol = st.machine.kallsyms.symbol_at(addr)
    if symbol is None or "." not in symbol.name:
        return False
    whole = st.machine.kallsyms.lookup_name(symbol.name.partition(".")[0])
    return bool(whole) and _within_kprobe_blacklist(st, whole[0].addr)
