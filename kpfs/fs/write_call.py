# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes that are made in the middle of a request of the mount (kpfs.mirror.write)."""

from __future__ import annotations

from typing import NamedTuple

# ioctl(2) of the mount, for its own threads alone: see kpfs.mirror.write
EMPTY_WRITE = ord("k") << 8


class WriteCall(NamedTuple):
    """A write(2), pwrite64(2) or writev(2)."""

    name: str
    data: bytes
    sizes: list[int]  # of the segments of a writev()
    pos: int  # of a pwrite64()
