# SPDX-License-Identifier: GPL-2.0-or-later
"""The order of a mount's requests, where several have been received.

The callers of all requests wait, but for those of closes, so that any order would be
right that keeps these first: a process goes on after close() before it is answered.
Requests in LOCKING go before the others, as each keeps further ones from being sent.
Every second place is for the others, which therefore wait no more than twice as long.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from kpfs.base.fuse_wire import Opcode
from kpfs.base.typed import Generic, TypeVar

R = TypeVar("R")

RELEASE = int(Opcode.RELEASE)
# While one of these waits, Linux has locked an inode: a file's or a directory's.
LOCKING = frozenset(
    map(
        int,
        (
            *(Opcode.WRITE, Opcode.SETATTR, Opcode.CREATE, Opcode.MKNOD),
            *(Opcode.MKDIR, Opcode.RMDIR, Opcode.UNLINK, Opcode.RENAME),
            *(Opcode.SYMLINK, Opcode.LINK),
        ),
    )
)


class Turns(Generic[R]):
    """Requests that wait to be served."""

    def __init__(self) -> None:
        self._closes: deque[R] = deque()
        self._locking: deque[R] = deque()
        self._others: deque[R] = deque()
        self._favoured = False  # the last one went before others
        self.count = 0

    def __iter__(self) -> Iterator[R]:
        yield from self._closes
        yield from self._locking
        yield from self._others

    def add(self, opcode: int, request: R) -> None:
        """Add the one that was received last."""
        self.count += 1
        if opcode == RELEASE:
            self._closes.append(request)
        else:
            (self._locking if opcode in LOCKING else self._others).append(request)

    def take(self) -> R:
        """Return the one that is to be served now, and forget it."""
        self.count -= 1
        if self._closes:
            return self._closes.popleft()
        due = self._favoured and bool(self._others)
        self._favoured = bool(self._locking) and not due
        return (self._locking if self._favoured else self._others).popleft()
