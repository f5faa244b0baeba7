# SPDX-License-Identifier: GPL-2.0-or-later
"""Hints for the user of ``kpfs run``: the daemon writes them, the runner prints them.

They are kept in a file without a name, so that the runner reads them although the
daemon may have died, and nobody ever waits.
"""

from __future__ import annotations

import contextlib
import os

IF_FAILED, ALWAYS = b"?", b"!"


def new() -> int:
    """Return the descriptor of an empty file for hints, -1 if there is no room."""
    with contextlib.suppress(OSError):
        return os.memfd_create("kpfs-hints", os.MFD_CLOEXEC)
    return -1


def add(fd: int, text: str, *, if_failed: bool) -> None:
    """Add a hint.  if_failed: it matters only if the command fails."""
    with contextlib.suppress(OSError):
        kind = IF_FAILED if if_failed else ALWAYS
        os.write(fd, kind + text.encode("utf-8", "replace") + b"\n")


def read(fd: int, *, failed: bool) -> list[str]:
    """Return the hints that matter, each once, in the order in which they came.

    failed: the command has.
    """
    lines = os.pread(fd, os.fstat(fd).st_size, 0).splitlines() if fd >= 0 else []
    kept = [line[1:] for line in lines if failed or line.startswith(ALWAYS)]
    return list(dict.fromkeys(line.decode("utf-8", "replace") for line in kept))
