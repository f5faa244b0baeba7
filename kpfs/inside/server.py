# SPDX-License-Identifier: GPL-2.0-or-later
"""A process that has a kernel ready, and forks itself for each command.

It learns from commands which files they read, and reads these into the kernel's page
cache for the next one. It learns which code they run, and has that translated. It ends
when it has been idle for a while.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket

from kpfs.base.errors import KernelError
from kpfs.config import KernelChoice
from kpfs.emulator.libunicorn import EmulatorError
from kpfs.inside.machine import CommandSession, refuse, start
from kpfs.linux.errors import UnfitError
from kpfs.linux.inside import failures, read_ahead, translate_ahead
from kpfs.linux.inside.loop import CallError
from kpfs.linux.inside.mounted import PreparedKernel
from kpfs.linux.inside.read_ahead import ReadAhead
from kpfs.linux.inside.rehearsal import rehearse
from kpfs.linux.inside.request import GREETING, PATIENCE, RunRequest
from kpfs.linux.inside.translate_ahead import TranslateAhead

FDS, _MOST_FDS = 3, 64
# bytes of a request: 6 MiB are all that execve() takes, and JSON has 6 for one
_LIMIT = 40 << 20
_LESSONS = 2  # files that a command leaves at its end


def serve(
    choice: KernelChoice,
    path: str,
    listener: socket.socket,
    patience: int,
    waiting: int,
) -> None:
    """Run commands for clients until none has come for that many seconds.

    waiting: see kpfs.inside.machine.start().
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that children leave no zombies
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    ours = os.stat(path).st_ino
    try:
        kernel = start(choice, waiting)
    except (UnfitError, EmulatorError, CallError, KernelError, OSError) as error:
        listener.settimeout(1)
        with contextlib.suppress(OSError):
            client, _ = listener.accept()
            client.sendall(GREETING)
            refuse(client, str(error))
        return
    os.close(waiting)
    try:
        ForkServer(kernel, path, listener).run(patience)
    finally:
        # a client that has connected gets no answer, and starts its own kernel
        with contextlib.suppress(OSError):
            if os.stat(path).st_ino == ours:  # no other process has taken our place
                os.unlink(path)


class ForkServer:
    """A kernel that is ready to be forked. Context: one thread."""

    def __init__(
        self, kernel: PreparedKernel, path: str, listener: socket.socket
    ) -> None:
        self._kernel = kernel
        self._path = path
        self._listener = listener
        self._board = kernel.loop.machine.board
        # in the order in which a command leaves its lessons
        self._queues: tuple[ReadAhead, TranslateAhead] = (
            ReadAhead(kernel.loop, kernel.worker),
            TranslateAhead(self._board),
        )
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
            queue = next((queue for queue in self._queues if queue.pending), None)
            busy = queue is not None or not rehearsed
            found = poll.poll(0 if busy else patience)
            if not found and not rehearsed:
                rehearse(self._kernel.loop, self._kernel.worker)
                failures.prepare(self._kernel)
                self._kernel.losses.told()  # looks up where the kernel counts some
                rehearsed = True
            elif not found and queue is not None:
                queue.step()
            elif not found:
                return
            for fd, _ in found:
                if fd == self._lessons.fileno():
                    self._learn()
                else:
                    self._accept()

    def _learn(self) -> None:
        """Take the lessons of a command that has ended.

        They are files, as a message could hold only so much of them.
        """
        _, fds, _, _ = socket.recv_fds(self._lessons, 1, _LESSONS)
        for add, fd in zip((queue.add for queue in self._queues), fds, strict=False):
            add(fd)

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return  # the client is gone
        with client:
            try:
                pid = os.fork()
            except OSError:  # some limit: the client starts its own kernel
                return
            if pid == 0:
                try:
                    self._be_session(client)
                finally:
                    os._exit(0)

    def _be_session(self, client: socket.socket) -> None:
        """Run one command. This is a process of its own."""
        self._listener.close()
        self._lessons.close()
        client.settimeout(PATIENCE)
        client.sendall(GREETING)
        data, fds, _, _ = socket.recv_fds(client, 1, _MOST_FDS)
        while not data.endswith(b"\n") and len(data) < _LIMIT:
            if not (piece := client.recv(65536, socket.MSG_PEEK)):
                return
            # what is behind the line is for the session: what was typed, say
            data += client.recv(piece.find(b"\n") + 1 or len(piece))
        client.settimeout(None)
        request = RunRequest.unpacked(json.loads(data))
        if len(fds) != FDS + len(request.further):
            return
        reads = self._kernel.served.host.reads = self._kernel.served.package.reads = []
        translated = self._board.translated
        CommandSession(self._kernel, client).run(request, fds)
        client.close()
        self._teach.setblocking(False)
        lessons = [read_ahead.lesson(reads)]
        if (code := translate_ahead.lesson(self._board, translated)) is not None:
            lessons.append(code)
        with contextlib.suppress(OSError):
            socket.send_fds(self._teach, [b"."], lessons)
