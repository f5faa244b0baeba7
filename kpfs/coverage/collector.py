# SPDX-License-Identifier: GPL-2.0-or-later
"""Collects what was reached of text that comes and goes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Protocol

from kpfs.base import elf
from kpfs.base.errors import KernelError
from kpfs.coverage.report import FunctionRange, Report
from kpfs.emulator.coverage import BlockCoverage, CoveredText
from kpfs.guest.loader.line_table import LineSpan, spans

VMLINUX = "vmlinux"
_ALIASES = ("init_module", "cleanup_module")  # for functions that a module names


class CoverableImage(Protocol):
    """A module, or the kernel: its functions and lines where they are in memory."""

    name: str

    @property
    def functions(self) -> list[FunctionRange]: ...

    @property
    def spans(self) -> list[LineSpan]:
        """Return the lines of the image, by address."""


class FileImage:
    """The image of a file."""

    def __init__(
        self, name: str, read: Callable[[], elf.ElfFile], places: dict[int, int]
    ) -> None:
        """read: returns its file, with debug information if there is any.

        places: the addresses of a module's sections.
        """
        self.name, self._read, self._places = name, read, places

    @cached_property
    def functions(self) -> list[FunctionRange]:
        is_placed = self._file.type == elf.ET_REL
        found: dict[int, FunctionRange] = {}
        for sym in self._file.symbols():
            base = self._places.get(sym.shndx) if is_placed else 0
            if sym.kind == elf.STT_FUNC and sym.shndx and base is not None:
                start = base + sym.value
                if start not in found or found[start].symbol in _ALIASES:
                    found[start] = FunctionRange(start, start + sym.size, sym.name)
        return list(found.values())

    @cached_property
    def spans(self) -> list[LineSpan]:
        try:
            return spans(self._file, self._places)
        except KernelError:  # for another architecture, or damaged: functions alone
            return []

    @cached_property
    def _file(self) -> elf.ElfFile:
        return self._read()


class Collector:
    """The coverage of text, also of unloaded text.  Context: lock held."""

    def __init__(self) -> None:
        self._gone = Report()
        self._texts: dict[int, tuple[CoverableImage, CoveredText]] = {}  # by address
        self._blocks: BlockCoverage | None = None

    def begin(self, blocks: BlockCoverage) -> None:
        """Count in another engine from now on; nothing of it is covered yet."""
        for address in list(self._texts):
            self.end(address)
        self._blocks = blocks

    def cover(self, image: CoverableImage, start: int, end: int) -> None:
        """Count in [start, end) of an image; what was covered there has gone."""
        for address, (_, text) in list(self._texts.items()):
            if text.start < end and start < text.end:
                self.end(address)
        assert self._blocks is not None
        self._texts[start] = image, self._blocks.cover(start, end)

    def end(self, address: int) -> None:
        """Count no longer in what begins at an address, if it is covered."""
        if address in self._texts:
            image, text = self._texts.pop(address)
            if self._blocks is not None:
                self._blocks.end(text)
            self._gone.add(_report(image, text))

    def report(self) -> Report:
        """Return what was reached up to now."""
        report = Report()
        report.add(self._gone)
        for image, text in self._texts.values():
            report.add(_report(image, text))
        return report


def _report(image: CoverableImage, text: CoveredText) -> Report:
    report, start, end = Report(), text.start, text.end
    report.add_text(
        image.name,
        [f for f in image.functions if start <= f.start < end],
        [s for s in image.spans if start <= s.start < end],
        text.runs(),
    )
    return report
