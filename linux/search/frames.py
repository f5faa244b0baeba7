# SPDX-License-Identifier: GPL-2.0-or-later
"""Python's side of board/search/frames.c: variables on the stack of checked text."""

from __future__ import annotations

from array import array
from itertools import chain
from typing import TYPE_CHECKING

from kpfs.base import abi, mapping
from kpfs.linux.board.board import Board, address_of

if TYPE_CHECKING:
    import mmap
    from collections.abc import Sequence

    from kpfs.linux.memory.stack_variables import Frame, StackVariable
    from kpfs.linux.search.texts import LookedText

_MASK = (1 << 64) - 1


class Frames:
    """The functions of one kernel's checked texts that have variables on the stack.

    Findings have indices of variables, so these stay when their text is gone.
    """

    def __init__(self, board: Board, shadow: memoryview) -> None:
        """shadow: the words of struct shadow."""
        self._board, self._shadow = board, shadow
        self._names: list[tuple[str, StackVariable]] = []  # with their functions
        self._rows = array("Q")  # struct local
        self._framed: dict[int, list[tuple[int, int, int]]] = {}  # by number of text
        self._kept: list[mmap.mmap] = []  # what the board reads

    def begin_text(self, text: LookedText, frames: Sequence[Frame]) -> None:
        """Know the functions of a text.  Its rows are made."""
        rows = []
        for frame in frames:
            if text.start <= frame.entry < text.end:
                rows.append((frame.entry, len(self._names), len(frame.variables)))
                self._names += [(frame.name, each) for each in frame.variables]
                for each in frame.variables:
                    self._rows.extend((each.offset & _MASK, each.size))
                self._board.watch_frame(frame.entry, frame.size)
        if rows:
            self._framed[text.number] = rows
            self._tell()

    def end_text(self, text: LookedText) -> None:
        """Forget the functions of a text that is gone."""
        if self._framed.pop(text.number, None):
            self._tell()

    def _tell(self) -> None:
        framed = sorted(chain.from_iterable(self._framed.values()))
        words = array("Q", chain.from_iterable(framed))
        self._kept = [_table(self._rows), _table(words)]
        places = abi.Shadow.locals, abi.Shadow.framed
        for place, table in zip(places, self._kept, strict=True):
            self._shadow[place >> 3] = address_of(table)
        self._shadow[abi.Shadow.nr_framed >> 3] = len(framed)

    def describe(self, number: int) -> str:
        """Say which variable has an index."""
        function, variable = self._names[number]
        bytes_ = f"{variable.size} byte{'s' * (variable.size != 1)}"
        return f"the variable {variable.name} of {function}() has {bytes_}"


def _table(words: array[int]) -> mmap.mmap:
    table = mapping.make(max(len(words), 1) * words.itemsize)
    memoryview(table).cast("Q")[: len(words)] = words
    return table
