# SPDX-License-Identifier: GPL-2.0-or-later
"""The ways behind a load that races, through code of arm64: see ../unused.py."""

from __future__ import annotations

from typing import Any

from kpfs.engine.arch.arm64.insn import detailed
from kpfs.engine.arch.unused import Ways

_LAST = 30
_REGISTER = 1  # a kind of operands: capstone's ARM64_OP_REG
_NUMBERS = {
    **{f"{size}{number}": number for number in range(_LAST + 1) for size in "xw"},
    "fp": 29,
    "lr": 30,
}
_CALLS = "bl", "blr"
_BRANCHES = "cbz", "cbnz", "tbz", "tbnz"
# capstone says that these write what they compare, and not what they store
_COMPARES = "cmp", "cmn", "tst", "ccmp", "ccmn"
_ATOMIC = "swp", "cas", "ldadd", "ldclr", "ldset", "ldeor", "ldsmax", "ldsmin", "ldum"


class Arm64Ways(Ways):
    """The ways through code of arm64."""

    longest = 4
    arguments = range(9)  # the last one points to where a structure is to be returned
    results = frozenset(range(2))
    kept = frozenset(range(19, 30))

    @staticmethod
    def disassembler() -> Any:
        return detailed()

    def registers(self, insn: Any, which: int) -> list[tuple[int, bool]]:
        name, found = insn.mnemonic, [*insn.regs_access()[which]]
        if name in _COMPARES:
            found = [] if which else _operands(insn)
        elif name.startswith(_ATOMIC) and not which:
            found = _operands(insn)
        names = map(insn.reg_name, found)
        return [(_NUMBERS[name], True) for name in names if name in _NUMBERS]

    def behind(self, insn: Any, register: int) -> list[int] | None:
        name, behind = insn.mnemonic, insn.address + insn.size
        if register in dict(self.registers(insn, 0)):
            return None
        if name in _CALLS:
            return self.behind_call(insn, register)
        if name == "ret":
            return None if register in self.results else []
        if name in ("b", *_BRANCHES) or name.startswith("b."):
            to = insn.operands[-1].imm
            if name == "b" and not self.is_inside(to):
                return self.behind_jump(insn, register)
            return [to] if name == "b" else [to, behind]
        if name.startswith("br"):
            return None
        if (register, True) in self.registers(insn, 1):
            return []
        return [behind]


def _operands(insn: Any) -> list[int]:
    """Return the registers of all operands."""
    return [each.reg for each in insn.operands if each.type == _REGISTER]
