# SPDX-License-Identifier: GPL-2.0-or-later
"""Lists arm64's instructions beside what they once were: see ../x86/compare.py."""

from __future__ import annotations

from typing import Any

from kpfs.base.ktypes import MASK64
from kpfs.engine.listing import FIXED_SIZE, FixedSizeWords

_OPCODE = 26  # first bit of the six that tell branches
_JUMP, _CALL = 5, 37  # b, bl: what follows is how many instructions away
_BREAKPOINT, _BREAKPOINT_MASK = 0xD4200000, 0xFFE0001F  # brk


def detailed() -> Any:
    """Return capstone's disassembler; its instructions tell of their registers."""
    made = Disassembler.capstone()
    made.detail = True
    return made


def branch_target(word: int, addr: int) -> int | None:
    """Return where b or bl goes; None for another instruction."""
    if word >> _OPCODE not in (_JUMP, _CALL):
        return None
    distance = word & (1 << _OPCODE) - 1
    distance -= (distance >> _OPCODE - 1) << _OPCODE
    return (addr + FIXED_SIZE * distance) & MASK64


class Disassembler(FixedSizeWords):
    processor, modes = "ARM64", ("ARM",)
    directive = ".inst"
    branch_target = staticmethod(branch_target)

    def kind(self, word: int) -> str:
        if word & _BREAKPOINT_MASK == _BREAKPOINT:
            return "breakpoint"
        return {_JUMP: "jump", _CALL: "call"}.get(word >> _OPCODE, "patched")
