# SPDX-License-Identifier: GPL-2.0-or-later
"""Find out whether anything in a Linux kernel watches what its tasks do.

Whatever watches has changed the kernel's text: by a breakpoint, call or jump of a
probe, a call of ftrace, or a branch at a tracepoint or an event of perf.  Modules can
watch in other ways, so a loaded module counts as well.

No call graph of such a kernel can be trusted, as it makes many indirect calls.  So all
calls can be seen, or none.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from time import monotonic

from kpfs.base import pagemap
from kpfs.base.lock import FairLock
from kpfs.base.skip_policy import EVERY, NONE, Seen
from kpfs.base.units import PAGE_SIZE
from kpfs.linux.board.board import Board
from kpfs.linux.memory.memory import KernelMemory
from kpfs.linux.memory.structures import Structures
from kpfs.linux.running.heads import Heads

PIECE = 16 * PAGE_SIZE  # bytes that are compared at once
_LISTS = ("modules",)
UNWATCHED = 0.05  # s between looks whether all watchers have stopped


class LinuxWatch:
    """Implements kpfs.base.skip_policy.VisibleCalls."""

    def __init__(self, lock: FairLock) -> None:
        """lock: the kernel's."""
        self._lock = lock
        self._make: Callable[[], ChangedText] | None = None
        self._text: ChangedText | None = None
        self._seen: Seen = EVERY
        self._ends = 0.0  # when to look whether the watchers have stopped
        self._is_unsure = True
        self.always = False  # something watches that does not show in the text

    def enter(self, make: Callable[[], ChangedText]) -> None:
        """Watch another board from now on.  Context: lock held."""
        self._make, self._text = make, None
        self._seen, self._is_unsure = EVERY, True

    def may_have_changed(self) -> None:
        """Look again before the next answer.  Context: lock held."""
        self._is_unsure = True

    @property
    def seen(self) -> Seen | None:
        if self._is_unsure:
            return None
        if self._seen is EVERY and monotonic() > self._ends and not self._lock.taken():
            return None
        return self._seen

    def update(self) -> Seen:
        if self._text is None:
            assert self._make is not None
            self._text = self._make()
        self._seen = EVERY if self.always or self._text.found() else NONE
        self._ends = monotonic() + UNWATCHED
        self._is_unsure = False
        return self._seen


class ChangedText:
    """Compares the text of a machine, locked and standing, with its image."""

    def __init__(
        self, board: Board, saved: int, memory: KernelMemory, structures: Structures
    ) -> None:
        """saved: a descriptor of the image's memory; memory: shows it."""
        self._ram = board.ram
        self._address = board.ram_address
        self._nops = board.arch.jump_nop, board.arch.ftrace_nop
        self._saved = saved
        start, end = (structures.data(name)[0] for name in ("_stext", "_etext"))
        self._begin = board.translate(start) if start else 0
        self._end = self._begin + end - start
        # contiguous in RAM, as far as its ends tell
        known = 0 < start < end and board.translate(end - 1) == self._end - 1
        known &= not self._begin % PAGE_SIZE and self._end <= len(self._ram)
        self._modules = Heads(board, memory, structures, _LISTS) if known else None
        self._differs = self._begin  # the page of the last change

    def found(self) -> bool:
        """Return True if text or the list of modules is not as in the image."""
        if self._modules is None or not self._modules.unchanged():
            return True
        return self._is_changed(self._differs) or any(
            self._is_changed(at)
            for begin, end in self._copied()
            for at in range(begin, end, PIECE)
        )

    def _is_changed(self, at: int) -> bool:
        """Return True if a piece of text has changed."""
        size = min(PIECE, self._end - at)
        now, before = self._ram[at : at + size], os.pread(self._saved, size, at)
        if now == before or self._with_one_nop(now) == self._with_one_nop(before):
            return False
        self._differs = at
        return True

    def _with_one_nop(self, code: bytes) -> bytes:
        other, nop = self._nops
        return code.replace(other, nop) if other else code

    def _copied(self) -> Iterator[tuple[int, int]]:
        """Yield the parts of the text that this process has copied: begin, end."""
        start = self._begin & -PAGE_SIZE
        size = (self._end - start + PAGE_SIZE - 1) & -PAGE_SIZE
        try:
            runs = list(pagemap.runs(self._address + start, size, pagemap.WRITTEN))
        except OSError:  # this host does not tell
            yield self._begin, self._end
            return
        for run in runs:
            begin, end = (start + PAGE_SIZE * page for page in run)
            yield max(begin, self._begin), min(end, self._end)
            # the caller found all of it unchanged, or it would have stopped: share it
            self._ram.madvise(mmap.MADV_DONTNEED, begin, end - begin)
