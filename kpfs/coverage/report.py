# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions and lines that were reached, and how often: a report that adds up.

What is counted is bytes of text.  Of the instructions of one line in a function the one
that was begun most often counts, as all of them together make the line.  Where a line
has instructions in several functions, as that of an inlined function, these add up.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kpfs.base.aside import LaterFile
from kpfs.guest.loader.line_table import LineSpan

# [begin, end) in the text, and how often it was run
Run = tuple[int, int, int]
_COLD = ".cold"  # a part of a function that stands elsewhere


class FunctionRange(NamedTuple):
    """A function in memory, by the name of its symbol."""

    start: int
    end: int
    symbol: str

    @property
    def name(self) -> str:
        """The name in the source: clones are FUNCTION.constprop.0, .part.1."""
        return self.symbol.partition(".")[0] or self.symbol


class SourceReport:
    """The functions and lines of one source file that were reached."""

    def __init__(self) -> None:
        self.functions: dict[str, tuple[int, int]] = {}  # name: (line, count)
        self.lines: dict[int, int] = {}  # line: count

    def add_function(self, name: str, line: int, count: int) -> None:
        known, before = self.functions.get(name, (line, 0))
        self.functions[name] = min(line, known), before + count

    def add_line(self, line: int, count: int) -> None:
        self.lines[line] = self.lines.get(line, 0) + count


class Report:
    """The functions and lines that were reached, by source files.

    The functions of text without line numbers are in a "source" that has the name of
    the module, or vmlinux, and no lines.
    """

    def __init__(self) -> None:
        self.sources: dict[str, SourceReport] = {}

    # ---- questions
    def functions(self) -> dict[str, int]:
        """Return how often each function was called, by its name."""
        found: dict[str, int] = {}
        for source in self.sources.values():
            for name, (_, count) in source.functions.items():
                found[name] = found.get(name, 0) + count
        return found

    def lines(self, name: str) -> dict[int, int]:
        """Return how often each line with code was run; {} for an unknown file.

        name: of a source file, or the end of its path.
        """
        parts = name.split("/")
        for path, source in self.sources.items():
            if path.split("/")[-len(parts) :] == parts:
                return dict(source.lines)
        return {}

    def tracefile(self) -> str:
        """Return it in the format of lcov(1), which genhtml(1) reads."""
        return "".join(f"{line}\n" for line in self._records())

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the tracefile.  OSError: the file is as it was."""
        with LaterFile(path) as file:
            file.write(os.fsencode(self.tracefile()))

    def _records(self) -> Iterator[str]:
        for path, source in sorted(self.sources.items()):
            functions = sorted((row, name) for name, row in source.functions.items())
            yield "TN:"
            yield f"SF:{path}"
            for (line, _), name in functions:
                yield f"FN:{line},{name}"
            for (_, count), name in functions:
                yield f"FNDA:{count},{name}"
            yield f"FNF:{len(functions)}"
            yield f"FNH:{sum(count > 0 for (_, count), _ in functions)}"
            for line, count in sorted(source.lines.items()):
                yield f"DA:{line},{count}"
            yield f"LF:{len(source.lines)}"
            yield f"LH:{sum(count > 0 for count in source.lines.values())}"
            yield "end_of_record"

    # ---- additions
    def add(self, other: Report) -> None:
        """Add another report."""
        for path, theirs in other.sources.items():
            ours = self.sources.setdefault(path, SourceReport())
            for name, (line, count) in theirs.functions.items():
                ours.add_function(name, line, count)
            for line, count in theirs.lines.items():
                ours.add_line(line, count)

    def add_text(
        self,
        name: str,
        functions: Iterable[FunctionRange],
        spans: Sequence[LineSpan],
        runs: Iterable[Run],
    ) -> None:
        """Add what was run of some text.

        name: of the module. spans, runs: by address. Functions and spans elsewhere
        have not been run.
        """
        rows = sorted(functions)
        counts = _Counts(list(runs))
        starts = [span.start for span in spans]
        for function in rows:
            if _COLD in function.symbol:
                continue
            at = bisect_right(starts, function.start) - 1
            path, line = name, 0
            if at >= 0 and function.start < spans[at].end:
                path, line = spans[at].file, spans[at].line
            source = self.sources.setdefault(path, SourceReport())
            source.add_function(
                function.name, line, counts.most(function.start, function.start + 1)
            )
        for (path, line), count in _lines(rows, spans, counts):
            self.sources.setdefault(path, SourceReport()).add_line(line, count)


class _Counts:
    """How often bytes were run."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs, self._starts = runs, [run[0] for run in runs]

    def most(self, start: int, end: int) -> int:
        """Return how often the byte that was run most often was run."""
        at = max(bisect_right(self._starts, start) - 1, 0)
        most = 0
        for begin, behind, count in self._runs[at:]:
            if begin >= end:
                break
            if behind > start:
                most = max(most, count)
        return most


def _lines(
    functions: Sequence[FunctionRange], spans: Sequence[LineSpan], counts: _Counts
) -> Iterator[tuple[tuple[str, int], int]]:
    """Yield file, line and count of each line in each function."""
    starts = [function.start for function in functions]
    most: dict[tuple[str, str, int], int] = {}
    for start, end, path, line in spans:
        at = bisect_right(starts, start) - 1
        key = functions[at].symbol.replace(_COLD, "") if at >= 0 else "", path, line
        most[key] = max(most.get(key, 0), counts.most(start, end))
    for (_, path, line), count in most.items():
        yield (path, line), count
