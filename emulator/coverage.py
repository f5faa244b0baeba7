# SPDX-License-Identifier: GPL-2.0-or-later
"""Count how often each instruction of some text is begun, by libunicorn's blocks.

``coverage.h`` tells how that is exact.  A hook for blocks is bounded to the text, so
that nothing else takes longer.  A hook stays for good: libunicorn would delete it only
at the end of a run.  Text that is gone has none to count for, and the next text at the
same place takes its hook over.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

from kpfs.base import abi, mapping
from kpfs.base.structures import fields
from kpfs.base.units import WORD
from kpfs.emulator.libunicorn import EmulatorError, load

_HOOK_BLOCK = 8
_PIECE = 1 << 15  # bytes of changes that are looked at at once

# [begin, end) in the text, and how often it was run
Run = tuple[int, int, int]


class _TextRecord(ctypes.Structure):
    """struct covered_text."""

    _fields_ = fields(abi.CoveredText)


class _Coverage(ctypes.Structure):
    """struct coverage."""

    _fields_ = fields(abi.Coverage)


class CoveredText:
    """Text whose instructions are counted."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        # private: what a forked process repeats is not to count
        self._changes = mapping.make((end - start + 1) * WORD)

    def changes_at(self) -> int:
        """Return the address of the changes in this process."""
        return ctypes.addressof(ctypes.c_char.from_buffer(self._changes))

    def runs(self) -> Iterator[Run]:
        """Yield the parts that were run, in order: (begin, end, count).

        Adjacent parts have different counts.
        """
        nothing = bytes(_PIECE)
        begin = count = 0
        for base in range(0, len(self._changes), _PIECE):
            piece = self._changes[base : base + _PIECE]
            if piece == nothing[: len(piece)]:
                continue
            for number, change in enumerate(memoryview(piece).cast("q")):
                if not change:
                    continue
                at = self.start + base // WORD + number
                if count:
                    yield begin, at, count
                begin, count = at, count + change


class BlockCoverage:
    """The covered text of one engine.  Context: the engine does not run, or a hook."""

    def __init__(self, engine: int, flush: Callable[[], None]) -> None:
        """flush: drops all translated code.  EmulatorError: no library counts."""
        library, blocks = load()
        if blocks is None:
            raise EmulatorError(
                "coverage: another library has loaded libunicorn before"
            )
        self._library, self._engine = library, ctypes.c_void_p(engine)
        self._flush = flush
        self._hook = ctypes.cast(blocks.coverage_block, ctypes.c_void_p)
        self._stands, self._share = blocks.coverage_stands, blocks.blocks_share
        self._last = _Coverage()
        self._pointer = ctypes.byref(self._last)
        self._hooked: dict[tuple[int, int], _TextRecord] = {}

    @property
    def address(self) -> int:
        """The address of struct coverage."""
        return ctypes.addressof(self._last)

    def cover(self, start: int, end: int) -> CoveredText:
        """Begin to count in [start, end)."""
        text = CoveredText(start, end)
        row = self._hooked.get((start, end))
        if row is None:
            row = self._hooked[start, end] = _TextRecord(start, end - start)
            row.all = self.address
            self._add_hook(row)
        row.changes = text.changes_at()
        self._flush()
        return text

    def end(self, text: CoveredText) -> None:
        """Count no longer; the counts stay readable."""
        self._hooked[text.start, text.end].changes = None
        self._last.end = self._last.first

    def left(self, address: int) -> None:
        """Take back what was counted of the last block from that address on.

        The engine stands there, and may not have run that block to its end.
        """
        self._stands(self._pointer, ctypes.c_uint64(address))

    def _add_hook(self, row: _TextRecord) -> None:
        self._share(self._engine)
        handle = ctypes.c_void_p()
        first, last = row.first, row.first + row.size - 1
        error = self._library.uc_hook_add(
            self._engine,
            ctypes.byref(handle),
            _HOOK_BLOCK,
            self._hook,
            ctypes.byref(row),
            ctypes.c_uint64(first),
            ctypes.c_uint64(last),
        )
        if error:
            raise EmulatorError(f"libunicorn: error {error}")
