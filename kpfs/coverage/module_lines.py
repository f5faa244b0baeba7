# SPDX-License-Identifier: GPL-2.0-or-later
"""The lines that instructions of modules were made of, by the files of the modules.

A place is FUNCTION+OFFSET [MODULE]: the kernel knows no more of it.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from kpfs.base import elf
from kpfs.base.elf import ElfFile
from kpfs.coverage.collector import FileImage

_PLACE = re.compile(r"(?P<function>\S+)\+(?P<offset>0x[0-9a-f]+) \[(?P<module>\S+)\]")
_APART = 1 << 32  # between the sections of a module, which are placed by themselves
_AMBIGUOUS = 1 << 62
# words of a line, or of the name of a header, that say that an access may race
_MARKED = re.compile(
    r"READ_ONCE|WRITE_ONCE|data_race|atomic|refcount|kref_|rcu|smp_(load|store)|xchg"
    r"|(test|set|clear|change)_bit|_lockless|list_empty_careful|wait_event|timer_pending"
)
_MARKED_FILE = re.compile(r"(atomic|bitops|refcount|rcu|once|llist|seqlock)[\w-]*\.h$")


def is_program(place: str) -> bool:
    """Return True for a place in a BPF program, whose words say all there is."""
    found = _PLACE.fullmatch(place)
    return bool(found and found["module"].startswith("bpf_prog_"))


class SourceLine(NamedTuple):
    """A line of a source file."""

    file: str
    number: int

    def __str__(self) -> str:
        return f"{self.file}:{self.number}"


class _Known(NamedTuple):
    """A module as if each section lay at its number << 32."""

    file: ElfFile
    image: FileImage
    functions: dict[str, int]


class ModuleLines:
    """The lines of some modules."""

    def __init__(self, files: Mapping[str, ElfFile]) -> None:
        """files: by the names of modules; it may change."""
        self._files, self._all = files, dict[str, _Known]()
        self.folders: set[str] = set()  # where sources are that are nowhere else

    def at(self, place: str, *, own: bool = False) -> SourceLine | None:
        """Return the line of a place; None: it is not known.

        own: where it is an inline function of a header, the line before that.
        """
        found = _PLACE.fullmatch(place)
        known = found and self._known(found["module"])
        if not found or not known or found["function"] not in known.functions:
            return None
        begin = known.functions[found["function"]]
        address = begin + int(found["offset"], 16)
        spans = known.image.spans
        number = bisect_right(spans, address, key=lambda span: span.start) - 1
        if number < 0 or address >= spans[number].end:
            return None
        before = number
        while own and before and spans[before].file.endswith(".h"):
            before -= 1
        if spans[before].start >= begin:
            number = before
        return SourceLine(spans[number].file, spans[number].line)

    def shown(self, text: str) -> str:
        """Return text with the lines of all places in it."""

        def replace(found: re.Match[str]) -> str:
            line = self.at(found[0], own=True)
            return f"{found[0]} ({line})" if line else found[0]

        return _PLACE.sub(replace, text)

    def is_known(self, place: str) -> bool:
        return self.at(place) is not None

    def may_race(self, place: str) -> bool:
        """Return True if the line says itself that the access may race."""
        line = self.at(place)
        if line is None:
            return False
        text = _text(self._source(line.file), line.number)
        return bool(_MARKED.search(text) or _MARKED_FILE.search(line.file))

    def _source(self, file: str) -> str:
        """Return where a source file is, if it is there."""
        name = os.path.basename(file)
        paths = file, *(os.path.join(folder, name) for folder in sorted(self.folders))
        return next(filter(os.path.isfile, paths), file)

    def _known(self, module: str) -> _Known | None:
        file, known = self._files.get(module), self._all.get(module)
        if file is not None and (known is None or known.file is not file):
            known = self._all[module] = _read(file)
        return known


def _read(file: ElfFile) -> _Known:
    symbols = [sym for sym in file.symbols() if sym.kind == elf.STT_FUNC and sym.shndx]
    places = {sym.shndx: sym.shndx * _APART for sym in symbols}
    functions: dict[str, int] = {}
    for sym in symbols:
        address = places[sym.shndx] + sym.value
        if functions.setdefault(sym.name, address) != address:
            functions[sym.name] = _AMBIGUOUS  # has no lines
    return _Known(file, FileImage("", lambda: file, places), functions)


@cache
def _lines_of(file: str) -> list[str]:
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            return opened.read().splitlines()
    except OSError:
        return []


def _text(file: str, number: int) -> str:
    return "".join(_lines_of(file)[number - 1 : number])
