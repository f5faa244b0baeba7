# SPDX-License-Identifier: GPL-2.0-or-later
"""Lists mips64's instructions beside what they once were: see ../x86/compare.py."""

from __future__ import annotations

from collections.abc import Iterator

from kpfs.base.ktypes import MASK64
from kpfs.engine.listing import FIXED_SIZE, FixedSizeWords

_OPCODE = 26  # first bit of the six that tell branches
_SPECIAL, _BY_SIGN, _FLOATS = 0, 1, 0x11
_J, _JAL = 2, 3
_JUMP_BITS = (1 << _OPCODE) - 1
_CONDITIONAL = frozenset((*range(4, 8), *range(0x14, 0x18)))
_JALR = 9
_BY_REGISTER = frozenset((8, _JALR))  # jr
_LUI, _ADDS = 0x0F, (0x09, 0x19)  # addiu, daddiu
_FIRST_ACCESS, _STORES = 0x20, frozenset((*range(0x28, 0x30), *range(0x38, 0x40)))
_KEPT = frozenset((*range(16, 24), 28, 29, 30))
_SIGNS = frozenset((0, 1, 2, 3, 0x10, 0x11, 0x12, 0x13, 0x1C))
_FLOAT_BRANCH = 8
_MINOR, _BREAK = 0x3F, 0x0D  # the six bits that tell break


def is_breakpoint(word: int) -> bool:
    """Return True for break with any number."""
    return word >> _OPCODE == _SPECIAL and word & _MINOR == _BREAK


def has_delay_slot(word: int) -> bool:
    """Return True if the instruction behind this one runs before its target.

    As the kernel does, take all of the floating-point unit's for branches.
    Kernel: __insn_has_delay_slot()
    """
    opcode = word >> _OPCODE
    if opcode == _SPECIAL:
        return word & _MINOR in _BY_REGISTER
    if opcode == _BY_SIGN:
        return word >> 16 & 31 in _SIGNS
    return opcode in (_J, _JAL, _FLOATS) or opcode in _CONDITIONAL


def branch_target(word: int, addr: int) -> int | None:
    """Return where a branch goes that has its target in itself; None for another."""
    opcode, behind = word >> _OPCODE, addr + FIXED_SIZE
    if opcode in (_J, _JAL):
        return behind >> _OPCODE + 2 << _OPCODE + 2 | (word & _JUMP_BITS) << 2
    is_float = opcode == _FLOATS and word >> 21 & 31 == _FLOAT_BRANCH
    if not is_float and opcode not in _CONDITIONAL and opcode != _BY_SIGN:
        return None
    if opcode == _BY_SIGN and not has_delay_slot(word):
        return None
    distance = (word & 0xFFFF) - (word << 1 & 0x1_0000)
    return behind + 4 * distance & MASK64


def named_addresses(code: bytes, addr: int) -> Iterator[tuple[int, bool]]:
    """Yield what may be addresses in instructions, and if they are of memory there.

    Leave out the stack's canary, which is what a function accesses first and last.
    """
    found = [*_addresses(code)]
    accessed = [row for row in found if row[1]]
    canary = accessed[0] if accessed[1:] and accessed[0] == accessed[-1] else None
    return (row for row in found if row != canary)


def _addresses(code: bytes) -> Iterator[tuple[int, bool]]:
    """Yield all of them.

    They have a high half, from lui, and a low one, which an access may have itself.
    Instructions count one after the other; a call keeps only some registers.
    """
    known: dict[int, int] = {}  # by register
    calls = False
    for at in range(0, len(code) - 3, FIXED_SIZE):
        word = int.from_bytes(code[at : at + FIXED_SIZE], "little")
        opcode, rs, rt = word >> _OPCODE, word >> 21 & 31, word >> 16 & 31
        low = (word & 0xFFFF) - (word << 1 & 0x1_0000)
        base, changed = known.get(rs), rt
        if opcode == _SPECIAL:
            changed = word >> 11 & 31
        elif opcode >= _FIRST_ACCESS:
            if base is not None:
                yield base + low & MASK64, True
            if opcode in _STORES:
                changed = 0
        known.pop(changed, None)
        if opcode == _LUI:
            known[rt] = low << 16 & MASK64
        elif opcode in _ADDS and base is not None:
            known[rt] = base + low & MASK64
            yield known[rt], False
        if calls:
            known = {reg: value for reg, value in known.items() if reg in _KEPT}
        calls = opcode == _JAL or (opcode == _SPECIAL and word & _MINOR == _JALR)


class Disassembler(FixedSizeWords):
    processor, modes = "MIPS", ("MIPS64", "LITTLE_ENDIAN")
    directive = ".word"
    branch_target = staticmethod(branch_target)

    def kind(self, word: int) -> str:
        if is_breakpoint(word):
            return "breakpoint"
        return {_J: "jump", _JAL: "call"}.get(word >> _OPCODE, "patched")
