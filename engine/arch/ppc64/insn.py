# SPDX-License-Identifier: GPL-2.0-or-later
"""Lists ppc64's instructions beside what they once were: see ../x86/compare.py."""

from __future__ import annotations

from collections.abc import Iterator

from kpfs.base.ktypes import MASK64
from kpfs.engine.listing import FixedSizeWords

_OPCODE = 26  # first bit of the six that tell branches
_BRANCH, _CALL, _ABSOLUTE = 18, 1, 2  # b; bits of its lowest ones
_DISTANCE = (1 << _OPCODE) - 4  # bytes, with its sign
_BREAKPOINT = 0x7FE00008  # trap
_ADDI, _ADDIS = 14, 15
_STORES, _LOADS = frozenset((36, 38, 44, 52, 54, 62)), frozenset((32, 34, 40, 42, 58))
_TOC, _ENTRY, _FIRST_KEPT = 2, 12, 14  # registers; the last one and above survive calls


def branch_target(word: int, addr: int) -> int | None:
    """Return where b or bl goes; None for another instruction."""
    if word >> _OPCODE != _BRANCH or word & _ABSOLUTE:
        return None
    distance = word & _DISTANCE
    return (addr + distance - (distance >> _OPCODE - 1 << _OPCODE)) & MASK64


def named_addresses(code: bytes, addr: int) -> Iterator[tuple[int, bool]]:
    """Yield what may be addresses in instructions, and if they are of memory there.

    They have a high half and a low one, which are distances from the TOC: a function
    finds it by its own address, which callers from afar leave in r12.  Instructions
    count one after the other.
    """
    known = {_ENTRY: addr}  # by register
    for at in range(0, len(code) - 3, 4):
        word = int.from_bytes(code[at : at + 4], "little")
        opcode, rt, ra = word >> _OPCODE, word >> 21 & 31, word >> 16 & 31
        low = (word & 0xFFFF) - (word << 1 & 0x1_0000)
        base = known.get(ra) if ra else None  # 0 stands for no register
        if opcode in (_ADDI, _ADDIS):
            known.pop(rt, None)
            if base is not None:
                known[rt] = base + (low << 16 if opcode == _ADDIS else low) & MASK64
            if base is not None and opcode == _ADDI and rt != _TOC:
                yield known[rt], False
        elif opcode in _LOADS or opcode in _STORES:
            if base is not None:  # the lowest bits of the longest ones tell their kind
                yield base + (low & ~3 if opcode in (58, 62) else low) & MASK64, True
            if opcode in _LOADS:
                known.pop(rt, None)
        elif opcode == _BRANCH and word & _CALL:
            known = {r: it for r, it in known.items() if r >= _FIRST_KEPT or r == _TOC}
        else:  # which of the two it changes is not looked at
            known.pop(rt, None)
            known.pop(ra, None)


class Disassembler(FixedSizeWords):
    processor, modes = "PPC", ("64", "LITTLE_ENDIAN")
    directive = ".long"
    branch_target = staticmethod(branch_target)

    def kind(self, word: int) -> str:
        if word == _BREAKPOINT:
            return "breakpoint"
        if word >> _OPCODE == _BRANCH:
            return "call" if word & _CALL else "jump"
        return "patched"
