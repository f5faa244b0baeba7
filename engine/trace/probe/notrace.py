# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions that kprobe events keep out of because ftrace does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kpfs.engine.ktypes import KAddr, Symbol


class Tables(Protocol):
    """The part of kpfs.engine.machine.Machine that this rule reads."""

    def lookup_name(self, name: str) -> Sequence[Symbol]: ...
    def symbol_at(self, addr: int) -> Symbol | None: ...
    def ftrace_location(self, start: int, end: int) -> KAddr | None: ...


def within_notrace_func(tables: Tables, addr: int) -> bool:
    """Whether the function around addr has no ftrace site.

    A part of a function (a name with a dot) without a site of its own goes by the
    function that it is part of.  A rule of tracefs; kprobes itself has none such.

    Context: control.
    Kernel: within_notrace_func()
    """
    if not _without_site(tables, addr):
        return False
    symbol = tables.symbol_at(addr)
    stem, dot, _ = symbol.name.partition(".") if symbol else ("", "", "")
    whole = tables.lookup_name(stem) if dot else ()
    return _without_site(tables, whole[0].addr) if whole else True


def _without_site(tables: Tables, addr: int) -> bool:
    symbol = tables.symbol_at(addr) if addr else None
    if symbol is None:
        return False
    return tables.ftrace_location(symbol.addr, symbol.addr + symbol.size - 1) is None
