# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions that kprobe events must not probe because ftrace cannot trace them."""

from __future__ import annotations

from kpfs.engine.judge import Tables


def within_notrace_func(tables: Tables, addr: int) -> bool:
    """Return True if the function around addr has no ftrace site.

    For a part of a function (a name with a dot) without a site of its own, the whole
    function decides.  Only tracefs has this rule; kprobes themselves do not.

    Context: control.  Kernel: within_notrace_func()
    """
    if not _without_site(tables, addr):
        return False
    symbol = tables.kallsyms.symbol_at(addr)
    stem, dot, _ = symbol.name.partition(".") if symbol else ("", "", "")
    whole = tables.kallsyms.lookup_name(stem) if dot else ()
    return _without_site(tables, whole[0].addr) if whole else True


def _without_site(tables: Tables, addr: int) -> bool:
    symbol = tables.kallsyms.symbol_at(addr) if addr else None
    if symbol is None:
        return False
    last = symbol.addr + symbol.size - 1
    return tables.text.ftrace_location(symbol.addr, last) is None
