# SPDX-License-Identifier: GPL-2.0-or-later
"""What makes one guest that commands run in differ from another."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """Guests of one kind can take each other's place."""

    kernel: str
    quiet: bool
    exact: bool
