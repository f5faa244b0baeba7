# SPDX-License-Identifier: GPL-2.0-or-later
"""The symbols of a kernel, looked up in the text of /proc/kallsyms in its image.

The text is mapped and never parsed as a whole, so that machines of one image share it.
Its lines are sorted by address; no module was loaded when it was read. To search it for
a name takes milliseconds, and a start asks for a hundred names. So the places of all
lines, sorted by their names, are kept beside it.
"""

from __future__ import annotations

import mmap
import os
import re
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from itertools import accumulate, takewhile

from kpfs.base import mapping
from kpfs.base.ktypes import FUNCTION_TYPES, KAddr, Symbol
from kpfs.base.typed import Protocol

_KEPT = 256  # names that were looked up
_MARK = 4096  # bytes between lines whose addresses are kept
_ROW = re.compile(rb"([0-9a-f]+) (\w) (\S+)\n")
_FUNCTION = re.compile(rb"[0-9a-f]+ [tTwW] (\S+)\n")


# Returns what a function makes, from an earlier process if that has kept it; None: it
# could not be kept.
Keep = Callable[[Callable[[], list[bytes]]], Sequence[bytes | memoryview] | None]


class Addresses(Protocol):
    """Finds what has a name."""

    def address(self, name: str) -> int:
        """Return its address, 0 if there is none."""


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

    def __init__(self, path: str, keep: Keep | None = None) -> None:
        """keep: see Keep; the text is searched without.

        Raises OSError or ValueError if the image has no such text.
        """
        with open(path, "rb") as file:
            self._text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._keep = keep
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
        """Give both files back at once, not when this object is collected."""
        vars(self).pop("_by_name", None)
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
        places = self._by_name
        if places is None:
            yield from self._search(name)
            return
        wanted = os.fsencode(name)
        for at in self._places(places, wanted, wanted.__eq__):
            row = self._symbol(at)
            if row is not None:
                yield row

    def _places(
        self, places: memoryview, first: bytes, fits: Callable[[bytes], bool]
    ) -> Iterator[int]:
        """Yield the places of names that fit, from the first of them on."""
        begin = bisect_left(places, first, key=self._name_at)
        return takewhile(
            lambda at: fits(self._name_at(at)),
            (places[number] for number in range(begin, len(places))),
        )

    def _name_at(self, at: int) -> bytes:
        """Return the last word of the line that begins at a place."""
        text = self._text
        end = text.find(b"\n", at)
        return text[text.rfind(b" ", at, end) + 1 : end]

    @cached_property
    def _by_name(self) -> memoryview | None:
        """The places of all lines, sorted by their names; None if none are kept."""
        found = self._keep and self._keep(self._sort)
        return memoryview(found[0]).cast("I") if found else None

    def _sort(self) -> list[bytes]:
        lines = self._text[:].split(b"\n")[:-1]
        ends = accumulate(len(line) + 1 for line in lines)
        places = [0, *ends][: len(lines)]
        names = [line[line.rfind(b" ") + 1 :] for line in lines]
        order = sorted(range(len(names)), key=names.__getitem__)
        return [array("I", map(places.__getitem__, order)).tobytes()]

    def _search(self, name: str) -> Iterator[Symbol]:
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
        words = [os.fsencode(name) for name in names]
        places = self._by_name
        if places is None:
            wanted = b"|".join(map(re.escape, words))
            pattern = rb"^[0-9a-f]+ [tTwW] (?:" + wanted + rb")(?:\.\S*)?$"
            found = [row.start() for row in re.finditer(pattern, self._text, re.M)]
        else:
            found = []
            for word in words:
                found += self._places(places, word, word.__eq__)
                start = word + b"."
                found += self._places(places, start, partial(_begins, start))
        rows = filter(None, map(self._symbol, sorted({*found})))
        return [row for row in rows if row.type in FUNCTION_TYPES]

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


def _begins(start: bytes, name: bytes) -> bool:
    return name.startswith(start)
