# SPDX-License-Identifier: GPL-2.0-or-later
"""Lists ppc64's instructions beside what they once were: see ../x86/compare.py.

The words come from capstone, imported when the first listing is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kpfs.base.ktypes import MASK64
from kpfs.engine.listing import FixedSizeWords

_OPCODE = 26  # first bit of the six that tell branches
_BRANCH, _CALL, _ABSOLUTE = 18, 1, 2  # b; bits of its lowest ones
_DISTANCE = (1 << _OPCODE) - 4  # bytes, with its sign
_BREAKPOINT = 0x7FE00008  # trap


class Disassembler(FixedSizeWords):
    """Words for instructions; capstone is loaded by the first one made."""

    def __init__(self) -> None:
        import capstone

        mode = capstone.CS_MODE_64 | capstone.CS_MODE_LITTLE_ENDIAN
        super().__init__(capstone.Cs(capstone.CS_ARCH_PPC, mode))

    def unknown(self, raw: bytes) -> str:
        return f".long {int.from_bytes(raw, 'little'):#010x}"

    def target(self, raw: bytes, addr: int) -> int | None:
        return branch_target(int.from_bytes(raw, "little"), addr)

    def patch(self, raw: bytes) -> str:
        word = int.from_bytes(raw, "little")
        if word == _BREAKPOINT:
            return "breakpoint"
        if word >> _OPCODE == _BRANCH:
            return "call" if word & _CALL else "jump"
        return "patched"


def branch_target(word: int, addr: int) -> int | None:
    """Return where b or bl goes; None for another instruction."""
    if word >> _OPCODE != _BRANCH or word & _ABSOLUTE:
        return None
    distance = word & _DISTANCE
    return (addr + distance - (distance >> _OPCODE - 1 << _OPCODE)) & MASK64


def compared_listing(
    live: bytes, saved: bytes, start: int, name: Callable[[int], str]
) -> Iterator[str]:
    """Return a line for each instruction from start on, noting those that were others.

    name gives what is written behind the target of a jump or call.
    """
    return Disassembler().compared(live, saved, start, name)
