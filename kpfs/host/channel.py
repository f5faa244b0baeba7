# SPDX-License-Identifier: GPL-2.0-or-later
"""Pairs of sockets over which processes of ours hand each other descriptors.

The module socket has all of it, too. But its import makes enums of hundreds of
constants, which takes 3 ms of the 28 that ``kpfs run`` has until its daemon starts.
"""

from __future__ import annotations

import _socket
from array import array
from collections.abc import Sequence

Socket = _socket.socket
INT_SIZE = array("i").itemsize
RIGHTS = _socket.SOL_SOCKET, _socket.SCM_RIGHTS


def pair() -> tuple[Socket, Socket]:
    """Return two connected sockets, which a program that is executed does not get."""
    return _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)


def send_fds(channel: Socket, data: bytes, fds: Sequence[int]) -> None:
    """Send some bytes, and descriptors with them."""
    channel.sendmsg([data], [(*RIGHTS, array("i", fds))])


def receive_fds(channel: Socket, count: int) -> list[int]:
    """Receive one byte; return up to count descriptors that came with it."""
    fds = array("i")
    _, parts, _, _ = channel.recvmsg(1, _socket.CMSG_LEN(count * INT_SIZE))
    for level, kind, data in parts:
        if (level, kind) == RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % INT_SIZE])
    return list(fds)
