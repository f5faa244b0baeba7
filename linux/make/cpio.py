# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes the archive of a kernel's first file system.

The same contents give the same bytes. Kernel:
Documentation/driver-api/early-userspace/buffer-format.rst
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

DIRECTORY, PROGRAM = 0o40755, 0o100755


class CpioEntry(NamedTuple):
    name: str
    mode: int
    data: bytes = b""


def archive(entries: Iterable[CpioEntry]) -> bytes:
    """Return an archive of format newc. Times are fixed, inode numbers are in order."""
    out = bytearray()
    for number, entry in enumerate((*entries, CpioEntry("TRAILER!!!", 0)), 1):
        name = entry.name.encode() + b"\0"
        size = len(entry.data)
        fields = number, entry.mode, 0, 0, 1, 0, size, 0, 0, 0, 0, len(name), 0
        out += b"070701" + b"".join(b"%08x" % field for field in fields) + name
        _pad(out)
        out += entry.data
        _pad(out)
    return bytes(out)


def _pad(out: bytearray) -> None:
    out += bytes(-len(out) % 4)
