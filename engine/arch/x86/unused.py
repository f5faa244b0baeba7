# SPDX-License-Identifier: GPL-2.0-or-later
"""Tell whether a load that races has a value that nobody uses.

A compiler loads before a branch what only one side of it uses. Where the other side ran
the load does not matter. So the ways through the function are followed from the load,
as far as they fit to the instructions that the task is known to have come to, until one
uses the register or writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from kpfs.engine.arch.x86.insn import detailed

_LEGACY = "ax cx dx bx sp bp si di".split()
_ARGUMENTS = frozenset((7, 6, 2, 1, 8, 9))
_RESULTS = frozenset((0, 2))
_KEPT = frozenset((3, 4, 5, 12, 13, 14, 15))  # by functions that are called
_NO_REGISTER = -1
_MOST = 2000  # instructions


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


def is_unused(
    code: bytes, at: int, looked_at: Sequence[int], trails: Sequence[Sequence[int]]
) -> bool:
    """Return True if no task has used what the load at an offset of a function loads.

    looked_at: offsets of the instructions that are noted when a task comes to them.
    trails: of those that each task has come to behind the load.
    """
    way = _Way(code, at, looked_at)
    return all(map(way.is_unused, trails))


class _Way:
    """The ways behind one load."""

    def __init__(self, code: bytes, at: int, looked_at: Sequence[int]) -> None:
        self._cs, self._code = detailed(), code
        self._at, self._looked_at = at, frozenset(looked_at)

    def is_unused(self, trail: Sequence[int]) -> bool:
        """Return True if the register is written before it is read on each way."""
        first = self._insn(self._at)
        written = self._registers(first, 1) if first is not None else []
        if len(written) != 1:
            return False
        ends, seen = 0, set[tuple[int, int, int]]()
        left = [(self._at + first.size, 0, written[0][0])]  # the register, while unused
        while left:
            place = at, step, register = left.pop()
            if place in seen:
                continue
            seen.add(place)
            insn = self._insn(at)
            if insn is None or len(seen) > _MOST:
                return False
            if at in self._looked_at:
                if step < len(trail) and trail[step] != at:
                    continue  # the task has not gone here
                if step == len(trail) or register == _NO_REGISTER:
                    return False
                step += 1
            if insn.mnemonic == "ret" and self._is_inside(trail[step:]):
                continue
            then = self._behind(insn, register)
            if then is None:  # it is used, if the task has gone here
                then, register = self._behind(insn, _NO_REGISTER), _NO_REGISTER
            if not then and register == _NO_REGISTER:
                return False
            ends += not then
            left += [(each, step, register) for each in then or ()]
        return ends > 0

    def _is_inside(self, rest: Sequence[int]) -> bool:
        """Return True if the task has gone on in the function, as it did before."""
        if not rest or not 0 <= rest[0] < len(self._code):
            return False
        return rest[0] not in self._first

    @cached_property
    def _first(self) -> set[int]:
        """The instructions that lookers see first where the function begins."""
        found, seen, left = set[int](), set[int](), [0]
        while left:
            at = left.pop()
            insn = self._insn(at)
            if at in self._looked_at:
                found.add(at)
            elif insn is not None and at not in seen:
                left += self._behind(insn, _NO_REGISTER) or []
            seen.add(at)
        return found

    def _insn(self, at: int) -> Any:
        if not 0 <= at < len(self._code):
            return None
        return next(self._cs.disasm(self._code[at : at + 15], at, 1), None)

    def _registers(self, insn: Any, which: int) -> list[tuple[int, bool]]:
        """Return the registers that an instruction reads (0) or writes (1)."""
        names = map(insn.reg_name, insn.regs_access()[which])
        return [_REGISTERS[name] for name in names if name in _REGISTERS]

    def _behind(self, insn: Any, register: int) -> list[int] | None:
        """Return where it goes on; [] if the value is gone, None if it is used."""
        name, operands = insn.mnemonic, insn.op_str.split(", ")
        clears = name in ("xor", "sub") and operands[0] == operands[-1]
        if not clears and register in dict(self._registers(insn, 0)):
            return None
        behind = insn.address + insn.size
        if name == "call":
            return None if register in _ARGUMENTS | _KEPT else []
        if name == "ret":
            return None if register in _RESULTS else []
        if name.startswith("j"):
            if not operands[0].startswith("0x"):
                return None
            to = int(operands[0], 16)
            if name == "jmp" and not 0 <= to < len(self._code):
                return None if register in _ARGUMENTS | _RESULTS else []
            return [to] if name == "jmp" else [to, behind]
        if (register, True) in self._registers(insn, 1):
            return []
        return [behind]
