# SPDX-License-Identifier: GPL-2.0-or-later
"""The functions that can be traced, matched by patterns, in control context."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from kpfs.base.ktypes import KAddr
from kpfs.engine.kstrtox import is_digit, simple_strtoul
from kpfs.engine.machine import Machine
from kpfs.engine.trace.func.glob import glob


class Function(NamedTuple):
    """A function that can be traced.  Kernel: struct dyn_ftrace."""

    addr: KAddr
    name: str
    module: str

    def text(self) -> str:
        module = f" [{self.module}]" if self.module else ""
        return f"{self.name}{module}\n"


class Functions:
    """All functions that can be traced, with modules'.  Kernel: ftrace_pages_start"""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._all: list[Function] | None = None
        self._own: dict[KAddr, Function] = {}  # those of no module, which stay

    def all(self) -> list[Function]:
        """Return all of them, in the order of available_filter_functions."""
        if self._all is None:
            machine = self._machine
            self._all = []
            for addr in machine.text.ftrace_locations():
                function = self._own.get(addr)
                if function is None:
                    symbol = machine.kallsyms.symbol_at(addr)
                    if symbol is None:
                        continue
                    function = Function(addr, symbol.name, symbol.module)
                    if not function.module:
                        self._own[addr] = function
                self._all.append(function)
        return self._all

    def modules_changed(self, going: str) -> set[KAddr]:
        """Look for them again; returns the addresses, without the going module's."""
        self._all = None
        self._all = [f for f in self.all() if not going or f.module != going]
        return {f.addr for f in self._all}

    def match(self, pattern: str, module: str | None = None) -> set[KAddr]:
        """Match functions by a word of set_ftrace_filter.  Kernel: match_records()"""
        if is_digit(pattern[:1]):
            index = simple_strtoul(pattern)[0]
            functions = self.all()
            return {functions[index - 1].addr} if 0 < index <= len(functions) else set()
        any_name = not pattern and module is not None
        fits = (lambda _name: True) if any_name else glob(pattern)
        return {
            f.addr
            for f in self.all()
            if (module is None or fits_module(module, f.module)) and fits(f.name)
        }

    def text(self, chosen: Collection[KAddr]) -> str:
        return "".join(f.text() for f in self.all() if f.addr in chosen)


def fits_module(wanted: str, module: str) -> bool:
    """Return True for a module of x, !x or *.  Kernel: ftrace_match_record()"""
    if wanted in ("", "*", "!"):
        return bool(module) != (wanted == "!")
    if wanted.startswith("!"):
        return not glob(wanted[1:])(module)
    return bool(module) and glob(wanted)(module)
