# SPDX-License-Identifier: GPL-2.0-or-later
"""What commands have read of the host's files, and so will read again."""

from __future__ import annotations

import os
from collections import deque

from kpfs.linux.inside.loop import Loop, Worker
from kpfs.linux.inside.tree import NEW
from kpfs.linux.running import syscalls as nr
from kpfs.linux.running.machine import STOP, Op, Result

LIMIT = 96 << 20  # bytes of the guest's memory that are given to it
READAHEAD = 187


class Learned:
    """Has a guest read ahead what lessons name, a file at each step."""

    def __init__(self, loop: Loop, worker: Worker) -> None:
        self._loop = loop
        self._worker = worker
        self._known: set[tuple[str, int, int]] = set()
        self._size = 0
        self._queue: deque[tuple[str, int, int]] = deque()

    @property
    def pending(self) -> bool:
        """Whether there is something to be read."""
        return bool(self._queue)

    def add(self, lesson: list[tuple[str, int, int]]) -> None:
        """Path, offset and size of what somebody has read."""
        for path, offset, size in lesson:
            row = path, offset, size
            if row not in self._known and self._size + size <= LIMIT:
                self._known.add(row)
                self._size += size
                self._queue.append(row)

    def step(self) -> None:
        """Read one of them."""
        self._loop.machine.skip(0)  # time stood still since the last one
        path, offset, size = self._queue.popleft()
        name = os.fsencode(NEW + path) + b"\0"
        self._worker.attempt(
            Op(nr.OPEN, (name, os.O_RDONLY | os.O_CLOEXEC), STOP),
            Op(READAHEAD, (Result(0), offset, size)),
            Op(nr.CLOSE, (Result(0),)),
        )
        self._loop.settle()
