# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers of DWARF's variable length.  Document: DWARF 5, section 7.6."""

from __future__ import annotations


def read_uleb(data: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned number, and what is behind it; IndexError: it is cut short."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not byte & 0x80:
            return value, at


def read_sleb(data: bytes, at: int) -> tuple[int, int]:
    """Return likewise a signed number."""
    value, behind = read_uleb(data, at)
    bits = 7 * (behind - at)
    return value - (value >> bits - 1 << bits), behind
