# SPDX-License-Identifier: GPL-2.0-or-later
"""Tell whether a load that races has a value that nobody uses.

A compiler loads before a branch what only one side of it uses. Where the other side ran
the load does not matter. So the ways through the function are followed from the load,
as far as they fit to the instructions that the task is known to have come to, until one
uses the register or writes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

NO_REGISTER = -1
_MOST = 2000  # instructions


class Ways(ABC):
    """The ways behind one load."""

    longest: ClassVar[int]  # bytes of an instruction

    def __init__(self, code: bytes, at: int, looked_at: Sequence[int]) -> None:
        self._cs, self._code = self.disassembler(), code
        self._at, self._looked_at = at, frozenset(looked_at)

    def is_unused(self, trail: Sequence[int]) -> bool:
        """Return True if the register is written before it is read on each way."""
        first = self._insn(self._at)
        written = self.registers(first, 1) if first is not None else []
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
                if step == len(trail) or register == NO_REGISTER:
                    return False
                step += 1
            if insn.mnemonic == "ret" and self._goes_on_inside(trail[step:]):
                continue
            then = self.behind(insn, register)
            if then is None:  # it is used, if the task has gone here
                then, register = self.behind(insn, NO_REGISTER), NO_REGISTER
            if not then and register == NO_REGISTER:
                return False
            ends += not then
            left += [(each, step, register) for each in then or ()]
        return ends > 0

    def _goes_on_inside(self, rest: Sequence[int]) -> bool:
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
                left += self.behind(insn, NO_REGISTER) or []
            seen.add(at)
        return found

    def _insn(self, at: int) -> Any:
        if not 0 <= at < len(self._code):
            return None
        return next(self._cs.disasm(self._code[at : at + self.longest], at, 1), None)

    def is_inside(self, target: int) -> bool:
        """Return True if a branch stays in the function."""
        return 0 <= target < len(self._code)

    @staticmethod
    @abstractmethod
    def disassembler() -> Any:
        """Return capstone's, whose instructions tell of their registers."""

    @abstractmethod
    def registers(self, insn: Any, which: int) -> list[tuple[int, bool]]:
        """Return the registers that an instruction reads (0) or writes (1).

        Each comes as its number, and whether a write replaces all of it.
        """

    @abstractmethod
    def behind(self, insn: Any, register: int) -> list[int] | None:
        """Return where it goes on; [] if the value is gone, None if it is used."""
