# SPDX-License-Identifier: GPL-2.0-or-later
"""Starts the process of a command that runs in a guest."""

from __future__ import annotations

import os
import socket

from kpfs.inside.client import Client, request_of
from kpfs.inside.machine import Kind, run_for


def run(kind: Kind, argv: list[str], writable: list[str]) -> int:
    """Run a command in a guest: its status."""
    request = request_of(argv, writable)
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
    finally:
        ours.close()  # which ends it
        os.waitpid(pid, 0)
