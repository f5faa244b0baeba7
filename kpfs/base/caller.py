# SPDX-License-Identifier: GPL-2.0-or-later
"""The process that makes an operation on the mount."""

from __future__ import annotations

from typing import NamedTuple


class Caller(NamedTuple):
    """FUSE's context, of the host."""

    pid: int  # of the thread; 0 for one outside our pid namespace
    uid: int
    gid: int
