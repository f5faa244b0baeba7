# SPDX-License-Identifier: GPL-2.0-or-later
"""The state of a kernel, to go back to."""

from __future__ import annotations

from typing import Protocol


class Snapshot(Protocol):
    """The state that a kernel had once.  It can be restored any number of times."""

    @property
    def session(self) -> object:
        """The session that it belongs to."""
