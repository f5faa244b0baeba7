# SPDX-License-Identifier: GPL-2.0-or-later
"""A process that has a guest ready, and is forked for a command.

From what commands have read it learns what the next one will, and has that in the
guest's page cache.  It ends when it has been idle for a while, and when nobody could
find it any more.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket

from kpfs.base.errors import KernelError
from kpfs.guest.emu.libunicorn import EmulatorError
from kpfs.inside.kind import Kind
from kpfs.inside.machine import Session, refuse, start
from kpfs.linux.errors import UnfitError
from kpfs.linux.inside.loop import CallError
from kpfs.linux.inside.mounted import PreparedKernel
from kpfs.linux.inside.read_ahead import ReadAhead
from kpfs.linux.inside.rehearsal import rehearse
from kpfs.linux.inside.request import Request

FDS = 3
_LIMIT = 1 << 20  # bytes of a request
_LESSON, _ROWS = 1 << 16, 100  # bytes of one, and what it tells at most


def serve(kind: Kind, path: str, listener: socket.socket, patience: int) -> None:
    """Run commands for those who ask, until nobody has for so many seconds."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # they are nobody's zombies
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        guest = start(kind)
    except (UnfitError, EmulatorError, CallError, KernelError, OSError) as error:
        listener.settimeout(1)
        with contextlib.suppress(OSError):
            refuse(listener.accept()[0], str(error))
        return
    try:
        Server(guest, path, listener).run(patience)
    finally:
        # who has connected meanwhile is not answered, and does without
        with contextlib.suppress(OSError):
            os.unlink(path)


class Server:
    """A ready guest.  Context: one thread."""

    def __init__(
        self, guest: PreparedKernel, path: str, listener: socket.socket
    ) -> None:
        self._guest = guest
        self._path = path
        self._listener = listener
        self._read_ahead = ReadAhead(guest.loop, guest.worker)
        self._lessons, self._teach = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_SEQPACKET
        )

    def run(self, seconds: int) -> None:
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        poll.register(self._lessons, select.POLLIN)
        patience = seconds * 1000
        rehearsed = False
        while True:
            busy = self._read_ahead.pending or not rehearsed
            found = poll.poll(0 if busy else patience)
            if not found and not busy:
                return
            if not found and not rehearsed:
                rehearse(self._guest.loop, self._guest.worker)
                rehearsed = True
            elif not found:
                self._read_ahead.step()
            for fd, _ in found:
                if fd == self._lessons.fileno():
                    self._read_ahead.add(json.loads(self._lessons.recv(_LESSON)))
                else:
                    self._accept()

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return  # it is gone
        with client:
            if os.fork() == 0:
                try:
                    self._be_session(client)
                finally:
                    os._exit(0)

    def _be_session(self, client: socket.socket) -> None:
        """In a process of its own: one command."""
        self._listener.close()
        self._lessons.close()
        client.settimeout(10)
        data, fds, _, _ = socket.recv_fds(client, 1, FDS)
        while not data.endswith(b"\n") and len(data) < _LIMIT:
            if not (piece := client.recv(65536)):
                return
            data += piece
        client.settimeout(None)
        if len(fds) != FDS:
            return
        reads = self._guest.files.reads = []
        Session(self._guest, client).run(Request.unpacked(json.loads(data)), fds)
        client.close()
        self._teach.setblocking(False)
        with contextlib.suppress(OSError):
            for start in range(0, len(reads), _ROWS):
                lesson = json.dumps(reads[start : start + _ROWS]).encode()
                self._teach.send(lesson)
