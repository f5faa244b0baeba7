# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads short files of a kernel's own."""

from __future__ import annotations

import os

from kpfs.base import syscall_numbers as nr
from kpfs.linux.inside.loop import Worker
from kpfs.linux.running.machine import Op, Out

_SIZE = 16 << 10  # bytes


def read_text(worker: Worker, path: bytes) -> str:
    """Return the beginning of a file; "" if there is none.  path: ends with NUL."""
    (fd,) = worker.attempt(Op(nr.OPENAT, (nr.AT_FDCWD, path, os.O_RDONLY, 0)))
    if fd < 0:
        return ""
    ops = [Op(nr.READ, (fd, Out(_SIZE), _SIZE)), Op(nr.CLOSE, (fd,))]
    at = worker.start(ops, lambda: None)[0]
    worker.wait()
    size = max(worker.results(2)[0], 0)
    return bytes(worker.memory[at : at + size]).decode("utf-8", "replace")
