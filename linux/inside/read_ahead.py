# SPDX-License-Identifier: GPL-2.0-or-later
"""Read ahead the host files that earlier commands have read.

Directories of the kernel's package, too: they never change, and the kernel keeps what
they list.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Sequence

from kpfs.base import syscall_numbers as nr
from kpfs.linux.inside.files import LISTED, ReadRange
from kpfs.linux.inside.loop import Loop, Worker
from kpfs.linux.inside.tree import NEW, PACKAGE
from kpfs.linux.running.machine import STOP, Op, Out, Result

LIMIT = 96 << 20  # bytes of the kernel's page cache that may be filled so
_LIST_SIZE = 4096  # bytes that a directory takes there, mostly
_ROOM = 32 << 10  # bytes for entries
_FLAGS = os.O_RDONLY | os.O_CLOEXEC


def lesson(reads: Sequence[ReadRange]) -> int:
    """Return the descriptor of a file that lists what a command has read."""
    fd = os.memfd_create("kpfs-read", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(json.dumps(reads).encode())
    return fd


class ReadAhead:
    """A queue of file ranges that a kernel reads ahead, one at each step."""

    def __init__(self, loop: Loop, worker: Worker) -> None:
        self._loop = loop
        self._worker = worker
        self._known: set[ReadRange] = set()
        self._size = 0
        self._queue: deque[ReadRange] = deque()

    @property
    def pending(self) -> bool:
        """Return True if ranges wait to be read."""
        return bool(self._queue)

    def add(self, fd: int) -> None:
        """Queue what lesson() has listed. Closes the descriptor."""
        with os.fdopen(fd, "rb") as file:
            file.seek(0)
            rows = json.load(file)
        for row in map(ReadRange._make, rows):
            size = max(row.size, _LIST_SIZE)
            if row not in self._known and self._size + size <= LIMIT:
                self._known.add(row)
                self._size += size
                self._queue.append(row)

    def step(self) -> None:
        """Read one range, or list a directory."""
        self._loop.machine.skip(0)  # time has stood still since the last range
        row = self._queue.popleft()
        if row.size == LISTED:
            self._list(os.fsencode(f"{PACKAGE}/{row.path}") + b"\0")
        else:
            self._worker.attempt(
                Op(nr.OPEN, (os.fsencode(NEW + row.path) + b"\0", _FLAGS), STOP),
                Op(nr.READAHEAD, (Result(0), row.offset, row.size)),
                Op(nr.CLOSE, (Result(0),)),
            )
        self._loop.settle()

    def _list(self, path: bytes) -> None:
        """List a directory to its end, as the kernel keeps whole lists only."""
        (fd,) = self._worker.attempt(Op(nr.OPEN, (path, _FLAGS)))
        if fd < 0:
            return
        listing = Op(nr.GETDENTS64, (fd, Out(_ROOM), _ROOM))
        while self._worker.attempt(listing)[0] > 0:
            pass
        self._worker.attempt(Op(nr.CLOSE, (fd,)))
