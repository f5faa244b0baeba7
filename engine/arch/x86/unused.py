# SPDX-License-Identifier: GPL-2.0-or-later
"""The ways behind a load that races, through code of x86-64: see ../unused.py."""

from __future__ import annotations

from typing import Any

from kpfs.engine.arch.unused import Ways
from kpfs.engine.arch.x86.insn import detailed

_LEGACY = "ax cx dx bx sp bp si di".split()


def _numbers() -> dict[str, tuple[int, bool]]:
    """Return number of each register, and whether a write replaces all of it."""
    found: dict[str, tuple[int, bool]] = {}
    for number, name in enumerate(_LEGACY):
        short = name[0] if name[1] == "x" else name
        parts = [name, f"{short}l", f"{short}h"]
        found |= {f"r{name}": (number, True), f"e{name}": (number, True)}
        found |= dict.fromkeys(parts, (number, False))
    for number in range(8, 16):
        found |= dict.fromkeys((f"r{number}", f"r{number}d"), (number, True))
        found |= dict.fromkeys((f"r{number}w", f"r{number}b"), (number, False))
    return found


_REGISTERS = _numbers()


class X86Ways(Ways):
    """The ways through code of x86-64."""

    longest = 15
    arguments = 7, 6, 2, 1, 8, 9
    results = frozenset((0, 2))
    kept = frozenset((3, 4, 5, 12, 13, 14, 15))

    @staticmethod
    def disassembler() -> Any:
        return detailed()

    def registers(self, insn: Any, which: int) -> list[tuple[int, bool]]:
        names = map(insn.reg_name, insn.regs_access()[which])
        return [_REGISTERS[name] for name in names if name in _REGISTERS]

    def behind(self, insn: Any, register: int) -> list[int] | None:
        name, operands = insn.mnemonic, insn.op_str.split(", ")
        clears = name in ("xor", "sub") and operands[0] == operands[-1]
        if not clears and register in dict(self.registers(insn, 0)):
            return None
        behind = insn.address + insn.size
        if name == "call":
            return self.behind_call(insn, register)
        if name == "ret":
            return None if register in self.results else []
        if name.startswith("j"):
            if not operands[0].startswith("0x"):
                return None
            to = int(operands[0], 16)
            if name == "jmp" and not self.is_inside(to):
                return self.behind_jump(insn, register)
            return [to] if name == "jmp" else [to, behind]
        if (register, True) in self.registers(insn, 1):
            return []
        return [behind]
