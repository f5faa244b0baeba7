# SPDX-License-Identifier: GPL-2.0-or-later
"""Colours for a terminal, unless the user wants none.

Document: ECMA-48, 8.3.117 (SGR); no-color.org.
"""

from __future__ import annotations

import os
from typing import TextIO

RED, GREEN, YELLOW, CYAN = 31, 32, 33, 36


def wanted(stream: TextIO) -> bool:
    """Return True if output to this stream shall have colours."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not plain


def paint(text: str, colour: int) -> str:
    return f"\033[{colour}m{text}\033[0m"
