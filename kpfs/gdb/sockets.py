# SPDX-License-Identifier: GPL-2.0-or-later
"""The sockets at which kernels of a user listen for gdb."""

from __future__ import annotations

import contextlib
import os
import re
import select
import socket
import stat
from typing import NamedTuple

from kpfs.base import host_process
from kpfs.base.errors import SetupError

NOT_YET = ".new"  # behind the path of a socket that is not open
_NAME = re.compile(r"gdb-(\d+)-(\w+)")
# also of one that has let nobody in yet
_ANY = re.compile(rf"gdb-(\d+)-\w+({re.escape(NOT_YET)})?")
LOCALHOST = "127.0.0.1"
TAKEN = 0.1  # s in which the server of another client closes
_MAX_PORT, _MAX_DIGITS = 0xFFFF, 20


class GdbSocket(NamedTuple):
    """A socket of a daemon."""

    path: str
    pid: int
    arch: str  # the kernel's: see kpfs.gdb.debugged.Debugged


def parse_address(text: str) -> tuple[str, int]:
    """Return the path that an address of --gdb-at names, or "" and a port.

    Raises SetupError.
    """
    host, colon, port = text.rpartition(":")
    if "/" in text or not (colon or text.isdecimal()):
        return os.path.abspath(text), 0
    is_number = port.isascii() and port.isdecimal()
    if not colon or host not in ("", "localhost", LOCALHOST) or not is_number:
        raise SetupError(f"--gdb-at {text}: a path, or {LOCALHOST}:PORT")
    if len(port) > _MAX_DIGITS or int(port) > _MAX_PORT:
        raise SetupError(f"--gdb-at {text}: a port is a number up to {_MAX_PORT}")
    return "", int(port)


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
        if match and host_process.exists(int(match[1])):
            path = os.path.join(folder, entry)
            found.append(GdbSocket(path, int(match[1]), match[2]))
    return found


def forget_dead(folder: str, at: str = "") -> None:
    """Remove the sockets of daemons that were killed.

    at: an address of --gdb-at, whose daemon has ended.
    """
    with contextlib.suppress(OSError):
        for entry in os.listdir(folder):
            match = _ANY.fullmatch(entry)
            if match and not host_process.exists(int(match[1])):
                os.unlink(os.path.join(folder, entry))
    path = parse_address(at)[0] if at else ""
    for each in (path, f"{path}{NOT_YET}") if path else ():
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.lstat(each).st_mode) and not answers(each):
                os.unlink(each)


def answers(path: str) -> bool:
    """Return True if a process listens at a socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        with contextlib.suppress(OSError):
            other.connect(path)
            return True
    return False


def is_taken(path: str) -> bool:
    """Return True if the server at a socket has a client: it closes all others."""
    with socket.socket(socket.AF_UNIX) as other, contextlib.suppress(OSError):
        other.connect(path)
        return bool(select.select([other], [], [], TAKEN)[0])
    return False
