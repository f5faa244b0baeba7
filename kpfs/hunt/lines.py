# SPDX-License-Identifier: GPL-2.0-or-later
"""The lines that instructions of modules were made of, by the files of the modules.

A place is FUNCTION+OFFSET [MODULE]. Runs know no more of it, as the kernel does not.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from kpfs.base import elf
from kpfs.base.errors import KernelError
from kpfs.coverage.collector import FileImage

_PLACE = re.compile(r"(?P<function>\S+)\+(?P<offset>0x[0-9a-f]+) \[(?P<module>\S+)\]")
_APART = 1 << 32  # between the sections of a module, which are placed by themselves
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
        return f"{os.path.basename(self.file)}:{self.number}"


class ModuleLines:
    """The lines of some modules."""

    def __init__(self, paths: Iterable[str]) -> None:
        """paths: of files, of which those of modules count."""
        self._paths = [path for path in paths if path.endswith(".ko")]
        self._images: dict[str, tuple[str, FileImage, dict[str, int]]] | None = None

    def at(self, place: str, *, own: bool = False) -> SourceLine | None:
        """Return the line of a place; None: it is not known.

        own: where it is an inline function of a header, the line before that.
        """
        found = _PLACE.fullmatch(place)
        known = found and self._modules().get(found["module"])
        if not found or not known or found["function"] not in known[2]:
            return None
        folder, image, functions = known
        address = functions[found["function"]] + int(found["offset"], 16)
        spans = image.spans
        number = bisect_right(spans, address, key=lambda span: span.start) - 1
        if number < 0 or address >= spans[number].end:
            return None
        before = number
        while own and before and spans[before].file.endswith(".h"):
            before -= 1
        if spans[before].start >= functions[found["function"]]:
            number = before
        span = spans[number]
        return SourceLine(_source(folder, span.file), span.line)

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
        text = _text(line.file, line.number)
        return bool(_MARKED.search(text) or _MARKED_FILE.search(line.file))

    def _modules(self) -> dict[str, tuple[str, FileImage, dict[str, int]]]:
        if self._images is None:
            self._images = {}
            for path in self._paths:
                self._add(path)
        return self._images

    def _add(self, path: str) -> None:
        assert self._images is not None
        try:
            with open(path, "rb") as opened:
                file = elf.ElfFile(opened.read())
            info = file.section(".modinfo")
            words = file.contents(info).split(b"\0") if info else []
        except (OSError, KernelError):
            return
        name = next((w[5:].decode("latin-1") for w in words if w[:5] == b"name="), "")
        symbols = [sym for sym in file.symbols() if sym.kind == elf.STT_FUNC]
        places = {sym.shndx: sym.shndx * _APART for sym in symbols if sym.shndx}
        functions = {
            sym.name: places[sym.shndx] + sym.value for sym in symbols if sym.shndx
        }
        image = FileImage(name, lambda: file, places)
        self._images[name] = os.path.dirname(path), image, functions


def _source(folder: str, file: str) -> str:
    """Return where a source file is, if it is there."""
    below = os.path.join(folder, os.path.basename(file))
    return next((path for path in (file, below) if os.path.isfile(path)), file)


@cache
def _lines_of(file: str) -> list[str]:
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            return opened.read().splitlines()
    except OSError:
        return []


def _text(file: str, number: int) -> str:
    return "".join(_lines_of(file)[number - 1 : number])
