# SPDX-License-Identifier: GPL-2.0-or-later
"""The symbols of a kernel, looked up in the text of /proc/kallsyms in its image.

The text is mapped and never parsed as a whole, so that machines of one image share it.
Its lines are sorted by address; no module was loaded when it was read.
"""

from __future__ import annotations

import mmap
import os
import re
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache

from kpfs.base import mapping
from kpfs.base.ktypes import KAddr, Symbol

_KEPT = 256  # names that were looked up
_MARK = 4096  # bytes between lines whose addresses are kept
_ROW = re.compile(rb"([0-9a-f]+) (\w) (\S+)\n")
_FUNCTION = re.compile(rb"[0-9a-f]+ [tTwW] (\S+)\n")


class SymbolLookup(ABC):
    """Symbols by name and by address: kpfs.engine.judge.Symbols."""

    generation = 0

    @abstractmethod
    def lookup_name(self, name: str) -> Sequence[Symbol]:
        """Return the symbols of a name in the order of kallsyms."""

    @abstractmethod
    def symbol_at(self, addr: int) -> Symbol | None:
        """Return the first symbol around an address."""

    def address(self, name: str) -> int:
        """Return the address of the first symbol of that name, 0 if there is none."""
        found = self.lookup_name(name)
        return found[0].addr if found else 0

    def name_of(self, addr: int) -> str:
        """Return symbol+offset [module]. Kernel: sprint_symbol(), without the size."""
        found = self.symbol_at(addr)
        if found is None:
            return f"{addr:#x}"
        offset = addr - found.addr
        name = f"{found.name}+{offset:#x}" if offset else found.name
        return f"{name} [{found.module}]" if found.module else name


class CoreSymbols(SymbolLookup):
    """The symbols of a kernel without modules. Context: any; they never change."""

    def __init__(self, path: str) -> None:
        """Raises OSError or ValueError if the image has no such text."""
        with open(path, "rb") as file:
            self._text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        # looking for a name takes milliseconds
        self._looked_up = lru_cache(_KEPT)(lambda name: tuple(self._named(name)))
        self._addresses = lru_cache(_KEPT)(self._address)
        self._ahead = dict[str, list[Symbol]]()

    def look_ahead(self, names: Iterable[str]) -> None:
        """Find the symbols of many names in one look at all, and keep them."""
        found = {os.fsencode(name): list[Symbol]() for name in names}
        for row in _ROW.finditer(self._text):
            symbol = self._symbol(row.start()) if row[3] in found else None
            if symbol is not None:
                found[row[3]].append(symbol)
        self._ahead.update((os.fsdecode(name), rows) for name, rows in found.items())

    def close(self) -> None:
        mapping.unmap(self._text)

    def lookup_name(self, name: str) -> Sequence[Symbol]:
        ahead = self._ahead.get(name)
        return self._looked_up(name) if ahead is None else ahead

    def address(self, name: str) -> int:  # does not search behind the first
        return self._addresses(name)

    def _address(self, name: str) -> int:
        found = next(self._named(name), None)
        return found.addr if found else 0

    def _named(self, name: str) -> Iterator[Symbol]:
        """Yield the symbols of a name in the order of kallsyms."""
        text = self._text
        tail = os.fsencode(f" {name}\n")  # it may be a word of a command line
        at = text.find(tail)
        while at >= 0:
            row = self._symbol(text.rfind(b"\n", 0, at) + 1)
            if row is not None:
                yield row
            at = text.find(tail, at + 1)

    def functions_made_of(self, names: Iterable[str]) -> Sequence[Symbol]:
        """Return functions of these names, also with a compiler's suffix (NAME.*)."""
        wanted = b"|".join(re.escape(os.fsencode(name)) for name in names)
        rows = rb"^[0-9a-f]+ [tTwW] (?:" + wanted + rb")(?:\.\S*)?$"
        lines = re.finditer(rows, self._text, re.M)
        return [row for line in lines if (row := self._symbol(line.start()))]

    def symbol_at(self, addr: int) -> Symbol | None:
        try:
            return self._symbol_at(addr)
        except ValueError:  # a line that is none
            return None

    def _symbol_at(self, addr: int) -> Symbol | None:
        text = self._text
        places, addresses = self._marks
        mark = bisect_right(addresses, addr)
        low = places[mark - 1] if mark else 0
        high = places[mark] if mark < len(places) else len(text)
        while low < high:  # lines from low on may be the last that begins up to addr
            middle = text.rfind(b"\n", 0, (low + high) // 2) + 1
            end = text.find(b"\n", middle) + 1
            if int(text[middle : text.find(b" ", middle)], 16) <= addr:
                low = end
            else:
                high = middle
        at = text.rfind(b"\n", 0, max(low - 1, 0)) + 1
        if not low:
            return None
        found = self._symbol(self._first_there(at))
        inside = found is not None and addr < found.addr + max(found.size, 1)
        return found if inside else None

    @cached_property
    def _marks(self) -> tuple[list[int], list[int]]:
        """The places of some lines, and their addresses: a search begins with them."""
        text, places, addresses = self._text, list[int](), list[int]()
        for near in range(0, len(text), _MARK):
            at = text.rfind(b"\n", 0, near) + 1
            if not places or at > places[-1]:
                places.append(at)
                addresses.append(int(text[at : text.find(b" ", at)], 16))
        return places, addresses

    def _first_there(self, at: int) -> int:
        """Return where the first line with this line's address begins."""
        text = self._text
        address = text[at : text.find(b" ", at) + 1]
        while at:
            before = text.rfind(b"\n", 0, at - 1) + 1
            if text[before : before + len(address)] != address:
                return at
            at = before
        return at

    def _symbol(self, at: int) -> Symbol | None:
        row = _ROW.match(self._text, at)
        if row is None:
            return None
        addr, after = int(row[1], 16), row
        while (line := _ROW.match(self._text, after.end())) is not None:
            after = line
            if int(line[1], 16) > addr:
                break
        size = max(int(after[1], 16) - addr, 0)
        return Symbol(row[3].decode("latin-1"), KAddr(addr), size, row[2].decode())

    def beginning_with(self, prefix: str) -> Iterator[tuple[int, str]]:
        """Yield address and name of each symbol with this prefix."""
        rows = rb"([0-9a-f]+) \w (" + re.escape(prefix.encode()) + rb"\S*)\n"
        for row in re.finditer(rows, self._text):
            yield int(row[1], 16), row[2].decode("latin-1")

    def rows(self) -> Iterator[tuple[int, str, str]]:
        """Yield address, type and name of each symbol, in the order of kallsyms."""
        for row in _ROW.finditer(self._text):
            yield int(row[1], 16), row[2].decode(), row[3].decode("latin-1")

    def functions(self) -> Iterator[str]:
        """Return the names of all functions."""
        for row in _FUNCTION.finditer(self._text):
            yield row[1].decode("latin-1")
