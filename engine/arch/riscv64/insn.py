# SPDX-License-Identifier: GPL-2.0-or-later
"""Lists riscv64's instructions beside what they once were: see ../x86/compare.py."""

from __future__ import annotations

from kpfs.engine.listing import CapstoneWords

SHORT, LONG = 2, 4  # sizes of instructions
_BREAKPOINTS = {b"\x02\x90", b"\x73\x00\x10\x00"}  # c.ebreak, ebreak
_OPCODE, _JAL, _JALR, _AUIPC, _BRANCH = 0x7F, 0x6F, 0x67, 0x17, 0x63
# by the bits of _C_MASK: c.j; c.beqz and c.bnez
_C_J, _C_BRANCHES, _C_MASK = 0xA001, (0xC001, 0xE001), 0xE003
# how far they go: see _field()
_JAL_PARTS = (31, 1, 20), (12, 8, 12), (20, 1, 11), (21, 10, 1)
_BRANCH_PARTS = (31, 1, 12), (7, 1, 11), (25, 6, 5), (8, 4, 1)
_C_J_PARTS = (
    *((12, 1, 11), (8, 1, 10), (9, 2, 8), (6, 1, 7), (7, 1, 6), (2, 1, 5)),
    *((11, 1, 4), (3, 3, 1)),
)
_C_BRANCH_PARTS = (12, 1, 8), (5, 2, 6), (2, 1, 5), (10, 2, 3), (3, 2, 1)


def _field(word: int, *parts: tuple[int, int, int]) -> int:
    """Return a signed number whose first part, the sign, is its highest bit.

    parts: first bit in word, how many, and the first bit in the number.
    """
    value = 0
    for at, count, to in parts:
        value |= (word >> at & (1 << count) - 1) << to
    top = parts[0][2]
    return value - (value >> top << top + 1)


def branch_distance(raw: bytes) -> int | None:
    """Return how far jal, a branch or their short forms go; None for others."""
    word = int.from_bytes(raw, "little")
    if len(raw) == LONG:
        if word & _OPCODE == _JAL:
            return _field(word, *_JAL_PARTS)
        if word & _OPCODE == _BRANCH:
            return _field(word, *_BRANCH_PARTS)
        return None
    if word & _C_MASK == _C_J:
        return _field(word, *_C_J_PARTS)
    if word & _C_MASK in _C_BRANCHES:
        return _field(word, *_C_BRANCH_PARTS)
    return None


class Disassembler(CapstoneWords):
    processor, modes = "RISCV", ("RISCV64", "RISCVC")
    unit, longest = SHORT, LONG

    @staticmethod
    def size_of(raw: bytes) -> int:
        return LONG if raw[0] & 3 == 3 else SHORT

    def unknown(self, raw: bytes) -> str:
        return f".insn {int.from_bytes(raw, 'little'):#0{2 + 2 * len(raw)}x}"

    def target(self, raw: bytes, addr: int) -> int | None:
        distance = branch_distance(raw)
        return None if distance is None else addr + distance

    def patch(self, raw: bytes) -> str:
        if raw in _BREAKPOINTS:
            return "breakpoint"
        is_call = raw[0] & _OPCODE in (_JALR, _AUIPC, _JAL) and len(raw) == LONG
        return "call" if is_call else "patched"
