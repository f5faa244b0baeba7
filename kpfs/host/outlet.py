# SPDX-License-Identifier: GPL-2.0-or-later
"""Write messages to a descriptor without waiting for whoever reads them.

The log and the guest's console are written with the kernel's lock held: if a write
waited for room in a pipe, on a terminal that Ctrl-S has stopped, or in a socket, the
kernel would stand still for everybody. O_NONBLOCK is no way, as it belongs to the open
file, which others have, too. So pipes and terminals are opened once more.
"""

from __future__ import annotations

import os
import select
import stat
import threading

from kpfs.base.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from socket import socket

DROPPED = b"** %d messages dropped **\n"


class Outlet:
    """A descriptor for messages. Those for which it has no room are dropped."""

    def __init__(self, fd: int, dropped: bytes = DROPPED) -> None:
        """dropped: the message that tells how many were, with a %d."""
        self._fd = self._given = fd
        self._told = dropped
        self._lock = threading.Lock()
        self._dropped = 0
        self._rest = b""  # rest of a message that was written in part
        self._socket: socket | None = None
        self._waits = False  # the descriptor could not be opened once more
        mode = os.fstat(fd).st_mode
        if stat.S_ISSOCK(mode):
            import socket

            self._socket = socket.socket(fileno=os.dup(fd))
        elif stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            try:
                self._fd = os.open(f"/proc/self/fd/{fd}", flags)
            except OSError:
                self._waits = True

    def close(self) -> None:
        """Close what was opened once more."""
        if self._socket is not None:
            self._socket.close()
        elif self._fd != self._given:
            os.close(self._fd)

    def write(self, message: bytes) -> None:
        """Write a message, or count it as dropped.  Context: any thread."""
        with self._lock:
            self._rest = self._rest[self._send(self._rest) :]
            told = self._told % self._dropped if self._dropped else b""
            whole = told + message
            sent = 0 if self._rest else self._send(whole)
            if sent:
                self._rest, self._dropped = whole[sent:], 0
            else:
                self._dropped += 1

    def _send(self, data: bytes) -> int:
        """Return how many bytes there was room for; all, if nobody reads them."""
        sent = 0
        try:
            while sent < len(data):
                count = self._send_some(data[sent : sent + select.PIPE_BUF])
                if not count:
                    break
                sent += count
        except BlockingIOError:
            return sent
        except OSError:
            return len(data)
        return sent

    def _send_some(self, data: bytes) -> int:
        if self._socket is not None:
            import socket

            return self._socket.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        if self._waits and not select.select([], [self._fd], [], 0)[1]:
            return 0
        return os.write(self._fd, data)
