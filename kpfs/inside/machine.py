# SPDX-License-Identifier: GPL-2.0-or-later
"""The process that runs a guest in which a command is."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
from typing import Any

from kpfs.base.errors import KernelError
from kpfs.guest.emu.libunicorn import EmulatorError
from kpfs.inside.kind import Kind
from kpfs.linux.errors import UnfitError
from kpfs.linux.inside import mounted
from kpfs.linux.inside.command import InsideCommand, Outcome
from kpfs.linux.inside.loop import CallError
from kpfs.linux.inside.mounted import PreparedKernel
from kpfs.linux.inside.request import Request
from kpfs.linux.store import store

TROUBLE = 2


def start(kind: Kind) -> PreparedKernel:
    """A kernel that has the host's files; UnfitError, EmulatorError, CallError."""
    folder = store.folder(kind.kernel)
    return mounted.start(folder, quiet=kind.quiet, exact=kind.exact)


class Session:
    """One command, for a client at the other end of a socket."""

    def __init__(self, guest: PreparedKernel, client: socket.socket) -> None:
        self._loop = guest.loop
        self._guest = guest
        self._client = client
        self._input = b""
        self._command: InsideCommand | None = None

    def run(self, request: Request, stdio: list[int]) -> None:
        """Run the command and tell the client how it ended; never raises."""
        os.umask(0)  # the guest has applied its own
        self._tell(begun=True)
        try:
            ended = self._run(request, stdio)
        except (KernelError, CallError) as error:
            ended = Outcome(TROUBLE, f"the guest died: {error}")
        self._tell(status=ended.status, why=ended.why)

    def _run(self, request: Request, stdio: list[int]) -> Outcome:
        guest = self._guest
        self._loop.watch(self._client.fileno(), select.POLLIN, self._listen)
        command = InsideCommand(self._loop, guest.worker, guest.files, request, stdio)
        self._command = command
        command.on_stop = self._stopped
        return command.run()

    def _tell(self, **message: object) -> None:
        with contextlib.suppress(OSError):
            self._client.sendall(json.dumps(message).encode() + b"\n")

    def _listen(self) -> None:
        """Do what the client says; without a client nothing goes on."""
        data = b""
        with contextlib.suppress(OSError):
            data = self._client.recv(4096)
        if not data:
            os._exit(0)
        *lines, self._input = (self._input + data).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))

    def _obey(self, message: dict[str, Any]) -> None:
        if self._command is None:
            return
        if "signal" in message:
            self._command.signal(message["signal"], group=message["group"])
        elif "size" in message:
            self._command.resize(bytes.fromhex(message["size"]))

    def _stopped(self, number: int) -> None:
        """The guest stands still until the client has it go on."""
        self._tell(stopped=number)
        self._listen()


def run_for(client: socket.socket, kind: Kind, request: Request) -> None:
    """Be the process of a command whose descriptors are ours."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the client passes them on
    for number in (signal.SIGTSTP, signal.SIGTTOU, signal.SIGTTIN):
        signal.signal(number, signal.SIG_IGN)
    session: Session | None = None
    try:
        guest = start(kind)
        session = Session(guest, client)
        session.run(request, [0, 1, 2])
    except (UnfitError, EmulatorError, CallError, KernelError) as error:
        refuse(client, str(error))


def refuse(client: socket.socket, why: str) -> None:
    """Tell a client that there is no guest for it."""
    message = {"status": TROUBLE, "why": why}
    with contextlib.suppress(OSError):
        client.sendall(json.dumps(message).encode() + b"\n")
