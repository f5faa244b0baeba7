# SPDX-License-Identifier: GPL-2.0-or-later
"""Starts the process of a command that runs in a guest."""

from __future__ import annotations

import contextlib
import os
import socket

from kpfs.host.errors import SetupError
from kpfs.inside import warm
from kpfs.inside.client import Client, LostError, request_of
from kpfs.inside.machine import Kind, run_for
from kpfs.linux.inside.command import Request


def run(kind: Kind, argv: list[str], writable: list[str]) -> int:
    """Run a command in a guest: its status."""
    request = request_of(argv, writable)
    connection = warm.connect(kind)
    if connection is not None:
        with connection, contextlib.suppress(LostError, ConnectionError):
            warm.ask(connection, request)
            return Client(connection).run()
    return _run_cold(kind, request)


def _run_cold(kind: Kind, request: Request) -> int:
    """The same in a guest of its own."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            run_for(theirs, kind, request)
        finally:
            os._exit(1)
    theirs.close()
    try:
        return Client(ours).run()
    except LostError:
        raise SetupError("the process that runs the guest died") from None
    finally:
        ours.close()  # which ends it
        os.waitpid(pid, 0)
