# SPDX-License-Identifier: GPL-2.0-or-later
"""The sockets at which kernels of a user listen for gdb."""

from __future__ import annotations

import contextlib
import os
import re
from typing import NamedTuple

_NAME = re.compile(r"gdb-(\d+)-(\w+)")
_ANY = re.compile(r"gdb-(\d+)-\w+(\.new)?")  # also of one that has let nobody in yet


class GdbSocket(NamedTuple):
    """A socket of a daemon."""

    path: str
    pid: int
    arch: str  # of the kernel: see kpfs.backends.debugged.Debugged


def socket_path(folder: str, pid: int, arch: str) -> str:
    """Return the path at which the daemon with a pid listens.

    folder: kpfs.base.places.runtime() of the user, whom the daemon may see otherwise.
    """
    return os.path.join(folder, f"gdb-{pid}-{arch}")


def sockets(folder: str) -> list[GdbSocket]:
    """Return the sockets of daemons that live; OSError."""
    found = []
    for entry in sorted(os.listdir(folder)):
        match = _NAME.fullmatch(entry)
        if match and os.path.exists(f"/proc/{match[1]}"):
            path = os.path.join(folder, entry)
            found.append(GdbSocket(path, int(match[1]), match[2]))
    return found


def forget_dead(folder: str) -> None:
    """Remove the sockets of daemons that were killed."""
    with contextlib.suppress(OSError):
        for entry in os.listdir(folder):
            match = _ANY.fullmatch(entry)
            if match and not os.path.exists(f"/proc/{match[1]}"):
                os.unlink(os.path.join(folder, entry))
