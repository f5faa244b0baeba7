# SPDX-License-Identifier: GPL-2.0-or-later
"""Lists armhf's instructions beside what they once were: see ../x86/compare.py.

Kernels have no Thumb code.
"""

from __future__ import annotations

from collections.abc import Iterator

from kpfs.engine.listing import FixedSizeWords

_KIND, _KIND_MASK, _BRANCH, _CALL = 24, 0xF, 0xA, 0xB  # whatever the condition
_CONDITION, _NEVER = 28, 15
_DISTANCE, _AHEAD, _U32 = 1 << 24, 8, 0xFFFF_FFFF
_PC = 15
_MOVW, _MOVT = 0xE30, 0xE34  # the upper bits, as in those below: without a condition
_LDR, _LDR_MASK, _LOAD, _UP = 0xE500_0000, 0xFF20_0000, 1 << 20, 1 << 23
_BREAKPOINT, _UNCONDITIONAL = 0x07F0_01F8, 0x0FFF_FFFF


def branch_target(word: int, addr: int) -> int | None:
    """Return where b or bl goes; None for another instruction."""
    kind = word >> _KIND & _KIND_MASK
    if kind not in (_BRANCH, _CALL) or word >> _CONDITION == _NEVER:
        return None
    distance = word & _DISTANCE - 1
    distance -= _DISTANCE * (distance >> 23)
    return addr + _AHEAD + 4 * distance & _U32


def named_addresses(code: bytes, addr: int) -> Iterator[tuple[int, bool]]:
    """Yield what may be addresses in instructions, and if they are of memory there.

    They are loaded by movw and movt, or from behind the function; and accesses have a
    distance from one in a register.  Instructions count one after the other.
    """
    known: dict[int, int] = {}  # by register
    for at in range(0, len(code) - 3, 4):
        word = int.from_bytes(code[at : at + 4], "little")
        rn, rd, low = word >> 16 & 15, word >> 12 & 15, word & 0xFFF
        half = word >> 4 & 0xF000 | low
        is_move = word >> 20 in (_MOVW, _MOVT)
        if is_move and word >> 20 == _MOVW:
            known[rd] = half
        elif is_move and rd in known:
            known[rd] = half << 16 | known[rd] & 0xFFFF
            yield known[rd], False
        elif word & _LDR_MASK == _LDR:
            distance = low if word & _UP else -low
            place = at + _AHEAD + distance
            if rn == _PC and 0 <= place <= len(code) - 4:
                known[rd] = int.from_bytes(code[place : place + 4], "little")
                yield known[rd], False
                continue
            if rn in known:
                yield known[rn] + distance & _U32, True
            if word & _LOAD:
                known.pop(rd, None)
        elif word >> _KIND & _KIND_MASK in (_BRANCH, _CALL):
            known.clear()
        else:
            known.pop(rd, None)


class Disassembler(FixedSizeWords):
    processor, modes = "ARM", ("ARM", "LITTLE_ENDIAN")
    directive = ".inst"
    branch_target = staticmethod(branch_target)

    def kind(self, word: int) -> str:
        if word & _UNCONDITIONAL == _BREAKPOINT:
            return "breakpoint"
        kind = word >> _KIND & _KIND_MASK
        return {_BRANCH: "jump", _CALL: "call"}.get(kind, "patched")
