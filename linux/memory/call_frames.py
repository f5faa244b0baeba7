# SPDX-License-Identifier: GPL-2.0-or-later
"""Pieces of .debug_frame.  Document: DWARF 5 section 6.4."""

from __future__ import annotations

from kpfs.base.data_model import LITTLE_64

_ENTRY = LITTLE_64.struct(
    "IIQQ"
)  # length, place of the CIE, begin and size of the text


def head(code: bytes, register: int, *, step: int = 1, signal: bytes = b"") -> bytes:
    """Return a CIE, where words of 8 bytes are counted downwards.

    register: that of the return address.  step: bytes by which the text is counted.
    signal: S if places of the caller are no return addresses.
    """
    body = b"\xff\xff\xff\xff\1" + signal + bytes((0, step, 0x78, register)) + code
    body += bytes(-(len(body) + 4) % 8)
    return LITTLE_64.raw(len(body), 4) + body


def entry(place: int, start: int, end: int, code: bytes) -> bytes:
    """Return an FDE.  place: that of its CIE in the section."""
    code += bytes(-(len(code) + 4) % 8)  # DW_CFA_nop
    size = _ENTRY.size - 4 + len(code)
    return _ENTRY.pack(size, place, start, end - start) + code


def uleb(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


def sleb(value: int) -> bytes:
    found = bytearray()
    while not -0x40 <= value < 0x40:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value & 0x7F))
