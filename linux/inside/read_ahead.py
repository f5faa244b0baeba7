# SPDX-License-Identifier: GPL-2.0-or-later
"""Read ahead the host files that earlier commands have read."""

from __future__ import annotations

import os
from collections import deque

from kpfs.base import syscall_numbers as nr
from kpfs.linux.inside.loop import Loop, Worker
from kpfs.linux.inside.tree import NEW
from kpfs.linux.running.machine import STOP, Op, Result

LIMIT = 96 << 20  # bytes of the kernel's page cache that may be filled so


class ReadAhead:
    """A queue of file ranges that a kernel reads ahead, one at each step."""

    def __init__(self, loop: Loop, worker: Worker) -> None:
        self._loop = loop
        self._worker = worker
        self._known: set[tuple[str, int, int]] = set()
        self._size = 0
        self._queue: deque[tuple[str, int, int]] = deque()

    @property
    def pending(self) -> bool:
        """Return True if ranges wait to be read."""
        return bool(self._queue)

    def add(self, lesson: list[tuple[str, int, int]]) -> None:
        """Queue the ranges of a lesson: path, offset, size."""
        for path, offset, size in lesson:
            row = path, offset, size
            if row not in self._known and self._size + size <= LIMIT:
                self._known.add(row)
                self._size += size
                self._queue.append(row)

    def step(self) -> None:
        """Read one range."""
        self._loop.machine.skip(0)  # time has stood still since the last range
        path, offset, size = self._queue.popleft()
        name = os.fsencode(NEW + path) + b"\0"
        self._worker.attempt(
            Op(nr.OPEN, (name, os.O_RDONLY | os.O_CLOEXEC), STOP),
            Op(nr.READAHEAD, (Result(0), offset, size)),
            Op(nr.CLOSE, (Result(0),)),
        )
        self._loop.settle()
