# SPDX-License-Identifier: GPL-2.0-or-later
"""Translate ahead the code that earlier commands have run.

A short program waits for libunicorn to translate it more than for anything else. The
kernel gives it the same addresses each time, and once its files are read ahead, it is
at the same places in RAM in each fork of a kernel.
"""

from __future__ import annotations

import mmap
import os
from collections import deque
from typing import NamedTuple

from kpfs.base import abi
from kpfs.linux.board.board import Board

LIMIT = 1 << 18  # blocks that a kernel translates ahead, of 0.5 KB each
STEP = 256  # blocks, which take 4 ms
_ROW = abi.Translation.SIZE


class _Lesson(NamedTuple):
    rows: mmap.mmap
    end: int  # end of the rows
    done: int = 0


def lesson(board: Board, since: int) -> int | None:
    """Return the descriptor of a file that lists what a board has translated.

    since: how many blocks were translated at the start. None: no further ones were.
    """
    size = min(board.translated - since, LIMIT) * _ROW
    if size <= 0:
        return None
    fd = os.memfd_create("kpfs-translated", os.MFD_CLOEXEC)
    os.ftruncate(fd, size)
    with mmap.mmap(fd, size) as rows:
        count = board.list_translated(since, rows)
    os.ftruncate(fd, count * _ROW)
    return fd


class TranslateAhead:
    """A queue of blocks that a board translates ahead, some at each step."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._room = LIMIT
        self._queue: deque[_Lesson] = deque()

    @property
    def pending(self) -> bool:
        """Return True if blocks wait to be translated."""
        return bool(self._queue)

    def add(self, fd: int) -> None:
        """Queue what lesson() has listed. Closes the descriptor."""
        try:
            count = min(os.fstat(fd).st_size // _ROW, self._room)
            if count:
                self._room -= count
                rows = mmap.mmap(fd, count * _ROW)
                self._queue.append(_Lesson(rows, count))
        finally:
            os.close(fd)

    def step(self) -> None:
        """Translate some blocks."""
        rows, end, done = self._queue.popleft()
        count = min(STEP, end - done)
        self._board.translate_ahead(rows, done, count)
        if done + count < end:
            self._queue.appendleft(_Lesson(rows, end, done + count))
