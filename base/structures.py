# SPDX-License-Identifier: GPL-2.0-or-later
"""Structures that Python and our libraries of C have in common, as ctypes has them."""

from __future__ import annotations

import ctypes

from kpfs.base.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Protocol

    class Layout(Protocol):
        """A class of kpfs.base.abi."""

        LAYOUT: str


_TYPES: dict[str, Any] = {
    "b": ctypes.c_char,
    "B": ctypes.c_uint8,
    "h": ctypes.c_int16,
    "H": ctypes.c_uint16,
    "i": ctypes.c_int32,
    "I": ctypes.c_uint32,
    "q": ctypes.c_int64,
    "Q": ctypes.c_uint64,
    "P": ctypes.c_void_p,
}


def fields(structure: type[Layout]) -> list[tuple[str, type[Any]]]:
    """Return _fields_ of a structure of C.

    What it begins with, if that is a structure, is to be the base of its class.
    """
    words = structure.LAYOUT.split()
    return [
        (name, _TYPES[kind[-1]] * int(kind[:-1]) if kind[:-1] else _TYPES[kind])
        for name, kind in zip(words[::2], words[1::2], strict=True)
    ]
