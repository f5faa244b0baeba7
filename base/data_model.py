# SPDX-License-Identifier: GPL-2.0-or-later
"""How an architecture keeps numbers in memory: byte order, and the size of a long."""

from __future__ import annotations

import struct
import sys
from array import array
from functools import cache

from kpfs.base.typed import TYPE_CHECKING, NamedTuple
from kpfs.base.units import WORD

if TYPE_CHECKING:
    from typing import Literal


class DataModel(NamedTuple):
    """The data model of an architecture, and what packs and unpacks by it."""

    order: Literal["little", "big"]
    long: int  # bytes of a long and of a pointer

    def struct(self, form: str) -> struct.Struct:
        """Return what packs a structure, without padding that the form does not name.

        form: as of the module struct, but for L and l: a long of the architecture.
        """
        return _packed(self, form)

    @property
    def letter(self) -> str:
        """A long as the modules struct and array call it."""
        return "Q" if self.long == WORD else "I"

    def number(
        self, raw: bytes | bytearray | memoryview, *, signed: bool = False
    ) -> int:
        """Return the number that bytes are."""
        return int.from_bytes(raw, self.order, signed=signed)

    def raw(self, value: int, size: int) -> bytes:
        """Return the lowest bytes of a number, so many of them."""
        return (value & (1 << 8 * size) - 1).to_bytes(size, self.order)

    def array(self, letter: str, raw: bytes) -> array[int]:
        """Return the numbers that bytes are, as array.array does on this host."""
        found = array(letter, raw)
        if self.order != sys.byteorder:
            found.byteswap()
        return found


@cache
def _packed(model: DataModel, form: str) -> struct.Struct:
    form = form.replace("L", model.letter).replace("l", model.letter.lower())
    return struct.Struct(("<" if model.order == "little" else ">") + form)


LITTLE_64, BIG_64 = DataModel("little", 8), DataModel("big", 8)
LITTLE_32 = DataModel("little", 4)
