# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether anything in the guest looks at what its tasks do.

Who looks has changed the kernel's text: by a breakpoint, call or jump of a probe, a
call of ftrace, or a branch at a tracepoint or an event of perf.  Modules could look in
other ways.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator

from kpfs.linux.board.board import PAGE_SIZE, Board
from kpfs.linux.memory.memory import KernelMemory
from kpfs.linux.memory.symbols import Symbols
from kpfs.linux.running.heads import Heads

PIECE = 16 * PAGE_SIZE  # that is compared at once
_ENTRY = 8  # bytes of /proc/PID/pagemap for a page
# Of the last byte of an entry: in memory or swapped, and no page of the file.
_COPIED = re.compile(rb"[\x40-\x5f\x80-\x9f\xc0-\xdf]+")


class Watched:
    """Of one machine.  Context: its lock is held; it does not run."""

    def __init__(
        self, board: Board, saved: int, memory: KernelMemory, symbols: Symbols
    ) -> None:
        """saved: a descriptor of the image's memory, which memory shows."""
        self._ram = board.ram
        self._address = board.ram_address
        self._saved = saved
        start, end = symbols.address("_stext"), symbols.address("_etext")
        self._begin = board.translate(start) if start else 0
        self._end = self._begin + end - start
        # in one piece, as far as one can tell
        known = 0 < start < end and board.translate(end - 1) == self._end - 1
        self._modules = Heads(board, memory, symbols, ("modules",)) if known else None
        self._differs = self._begin  # where it was last found to

    def look(self) -> bool:
        """Whether something may look."""
        if self._modules is None or not self._modules.unchanged():
            return True
        return self._is_changed(self._differs) or any(
            self._is_changed(at)
            for begin, end in self._copied()
            for at in range(begin, end, PIECE)
        )

    def _is_changed(self, at: int) -> bool:
        """Whether a piece of the text is not what it was; else it is shared again."""
        size = min(PIECE, self._end - at)
        if self._ram[at : at + size] != os.pread(self._saved, size, at):
            self._differs = at
            return True
        return False

    def _copied(self) -> Iterator[tuple[int, int]]:
        """The parts of the text that this process has of its own: begin, end."""
        first, last = self._begin // PAGE_SIZE, -(-self._end // PAGE_SIZE)
        offset = (self._address // PAGE_SIZE + first) * _ENTRY
        try:
            with open("/proc/self/pagemap", "rb", 0) as file:
                raw = os.pread(file.fileno(), (last - first) * _ENTRY, offset)
        except OSError:
            raw = b""
        if len(raw) < (last - first) * _ENTRY:  # a host that does not tell
            yield self._begin, self._end
            return
        for run in _COPIED.finditer(raw[_ENTRY - 1 :: _ENTRY]):
            begin, end = (PAGE_SIZE * (first + page) for page in run.span())
            yield max(begin, self._begin), min(end, self._end)
            # all of it is what it was, or this would not go on: share it again
            self._ram.madvise(mmap.MADV_DONTNEED, begin, end - begin)
