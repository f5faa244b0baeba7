# SPDX-License-Identifier: GPL-2.0-or-later
"""Starts the process of a command that runs in a guest."""

from __future__ import annotations

import contextlib
import os
import socket

from kpfs.host.errors import SetupError
from kpfs.inside import warm
from kpfs.inside.client import Client, LostError, request_of
from kpfs.inside.kind import Kind
from kpfs.linux.errors import UnfitError
from kpfs.linux.inside.request import Request


def run(kind: Kind, argv: list[str], writable: list[str], memory: int = 0) -> int:
    """Run a command in a guest: its status; SetupError.

    memory: MiB that the guest must have.
    """
    request = request_of(argv, writable)
    if memory:
        _check_memory(kind.kernel, memory)
    connection = warm.connect(kind)
    if connection is not None:
        with connection, contextlib.suppress(LostError, ConnectionError):
            warm.ask(connection, request)
            return Client(connection).run()
    return _run_cold(kind, request)


def _check_memory(kernel: str, memory: int) -> None:
    """SetupError where a kernel has less: an image cannot grow."""
    from kpfs.linux.store import image, store

    try:
        made = image.read_meta(store.folder(kernel)).memory >> 20
    except UnfitError as error:
        raise SetupError(str(error)) from None
    if made < memory:
        raise SetupError(
            f"{kernel} was made with {made} MiB of memory; for {memory} make it again: "
            f"kpfs kernel make {kernel} --memory {memory}"
        )


def _run_cold(kind: Kind, request: Request) -> int:
    """The same in a guest of its own."""
    from kpfs.inside.machine import run_for

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
