# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads short files of a kernel's own."""

from __future__ import annotations

import os

from kpfs.base import syscall_numbers as nr
from kpfs.linux.inside.loop import Worker
from kpfs.linux.running.machine import FINALLY, STOP, Op, Out, Result

_SIZE = 16 << 10  # bytes


def read_head(worker: Worker, path: str, size: int) -> bytes:
    """Return the first bytes of a file; b"" if it cannot be read."""
    name = os.fsencode(path) + b"\0"
    reply = worker.request(
        Op(nr.OPENAT, (nr.AT_FDCWD, name, os.O_RDONLY, 0), STOP),
        Op(nr.READ, (Result(0), Out(size), size)),
        Op(nr.CLOSE, (Result(0),), FINALLY),
    )
    if reply.results[0] < 0:
        return b""
    return reply.out(1, max(reply.taken(1, size), 0))


def read_text(worker: Worker, path: str) -> str:
    """Return the beginning of a file as text, likewise."""
    return read_head(worker, path, _SIZE).decode("utf-8", "replace")
