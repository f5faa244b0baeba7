# SPDX-License-Identifier: GPL-2.0-or-later
"""Lists arm64's instructions beside what they once were: see ../x86/compare.py.

The words come from capstone, imported when the first listing is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kpfs.base.ktypes import MASK64
from kpfs.engine.listing import FIXED_SIZE, FixedSizeWords

_OPCODE = 26  # first bit of the six that tell branches
_JUMP, _CALL = 5, 37  # b, bl: what follows is how many instructions away
_BREAKPOINT, _BREAKPOINT_MASK = 0xD4200000, 0xFFE0001F  # brk


class Disassembler(FixedSizeWords):
    """Words for instructions; capstone is loaded by the first one made."""

    def __init__(self) -> None:
        import capstone

        super().__init__(capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM))

    def unknown(self, raw: bytes) -> str:
        return f".inst {int.from_bytes(raw, 'little'):#010x}"

    def target(self, raw: bytes, addr: int) -> int | None:
        return branch_target(int.from_bytes(raw, "little"), addr)

    def patch(self, raw: bytes) -> str:
        word = int.from_bytes(raw, "little")
        if word & _BREAKPOINT_MASK == _BREAKPOINT:
            return "breakpoint"
        return {_JUMP: "jump", _CALL: "call"}.get(word >> _OPCODE, "patched")


def detailed() -> Any:
    """Return capstone's disassembler; its instructions tell of their registers."""
    import capstone

    made = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    made.detail = True
    return made


def branch_target(word: int, addr: int) -> int | None:
    """Return where b or bl goes; None for another instruction."""
    if word >> _OPCODE not in (_JUMP, _CALL):
        return None
    distance = word & (1 << _OPCODE) - 1
    distance -= (distance >> _OPCODE - 1) << _OPCODE
    return (addr + FIXED_SIZE * distance) & MASK64


def compared_listing(
    live: bytes, saved: bytes, start: int, name: Callable[[int], str]
) -> Iterator[str]:
    """Return a line for each instruction from start on, noting those that were others.

    name gives what is written behind the target of a jump or call.
    """
    return Disassembler().compared(live, saved, start, name)
