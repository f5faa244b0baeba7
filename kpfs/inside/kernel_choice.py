# SPDX-License-Identifier: GPL-2.0-or-later
"""The properties in which kernels differ that commands run in."""

from __future__ import annotations

from typing import NamedTuple


class KernelChoice(NamedTuple):
    """Two kernels that were chosen alike can take each other's place."""

    kernel: str
    quiet: bool
    exact: bool
