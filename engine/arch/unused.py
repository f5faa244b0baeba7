# SPDX-License-Identifier: GPL-2.0-or-later
"""Tell whether a load that races has a value that nobody uses.

A compiler loads before a branch what only one side of it uses. Where the other side ran
the load does not matter. So the ways through the function are followed from the load,
as far as they fit to the instructions that the task is known to have come to, until one
uses the register or writes it. A call uses it if it takes so many arguments. Where that
is not known, the ways through what is called are followed as well, all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from functools import cached_property
from typing import Any, ClassVar, Protocol

NO_REGISTER = -1
_MOST = 2000  # instructions


class ValueFate(Enum):
    """The end of a value in a register, on all ways."""

    USED = 1  # on one way, or it is not known
    GONE = 2  # another one is written to the register
    LEFT = 3  # a function returns with it, on one way


class Called(Protocol):
    """A call of another function, or a jump to one at the end."""

    @property
    def at(self) -> int:
        """The offset in the function."""

    @property
    def arguments(self) -> int:
        """The number of registers that its arguments take at most; -1: not known."""

    @property
    def code(self) -> str:
        """The code that runs then, in hexadecimal digits, if it is known."""

    @property
    def calls(self) -> Sequence[Called]:
        """The calls of that code."""


class Ways(ABC):
    """The ways behind one load, or from where a function begins."""

    longest: ClassVar[int]  # bytes of an instruction
    arguments: ClassVar[Sequence[int]]  # registers, in their order
    results: ClassVar[frozenset[int]]
    kept: ClassVar[frozenset[int]]  # by functions that are called

    def __init__(
        self,
        code: bytes,
        at: int,
        looked_at: Sequence[int],
        calls: Sequence[Called] = (),
    ) -> None:
        self._cs, self._code = self.disassembler(), code
        self._at, self._looked_at = at, frozenset(looked_at)
        self._calls = calls

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
            step = self._behind_steps(insn, step, trail)
            left += [(each, step, register) for each in then or ()]
        return ends > 0

    def _behind_steps(self, insn: Any, step: int, trail: Sequence[int]) -> int:
        """Return the step after those in what an instruction has called."""
        calls = self._known(insn)
        while calls and step < len(trail) and not self.is_inside(trail[step]):
            step += 1
        return step

    def _fate(self, register: int) -> ValueFate:
        """Return what becomes of a register with which the function begins."""
        ends, returns, seen, left = 0, 0, set[int](), [0]
        while left:
            at = left.pop()
            if at in seen:
                continue
            seen.add(at)
            insn = self._insn(at)
            if insn is None or len(seen) > _MOST:
                return ValueFate.USED
            if insn.mnemonic == "ret":
                returns += 1
                continue
            then = self.behind(insn, register)
            if then is None:
                return ValueFate.USED
            ends += not then
            left += then
        return ValueFate.LEFT if returns else ValueFate.GONE if ends else ValueFate.USED

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

    def _known(self, insn: Any) -> list[Called]:
        return [called for called in self._calls if called.at == insn.address]

    def call(self, insn: Any, register: int) -> ValueFate:
        """Return what becomes of a register in a call, or a jump out of the function.

        It is one that such a function need not keep.
        """
        if register not in self.arguments:
            return ValueFate.GONE
        fates = {self._fate_in(called, register) for called in self._known(insn)}
        if not fates or ValueFate.USED in fates:
            return ValueFate.USED
        return ValueFate.LEFT if ValueFate.LEFT in fates else ValueFate.GONE

    def _fate_in(self, called: Called, register: int) -> ValueFate:
        if called.arguments >= 0:
            takes = self.arguments.index(register) < called.arguments
            return ValueFate.USED if takes else ValueFate.GONE
        ways = type(self)(bytes.fromhex(called.code), 0, (), called.calls)
        return ways._fate(register)

    def behind_call(self, insn: Any, register: int) -> list[int] | None:
        """Return what behind() does for a call."""
        fate = ValueFate.USED if register in self.kept else self.call(insn, register)
        behind = [insn.address + insn.size]
        return {ValueFate.USED: None, ValueFate.GONE: [], ValueFate.LEFT: behind}[fate]

    def behind_jump(self, insn: Any, register: int) -> list[int] | None:
        """Return what behind() does for a jump to another function, which returns."""
        fate, is_result = self.call(insn, register), register in self.results
        if fate is ValueFate.LEFT or register not in self.arguments:
            return None if is_result else []
        return None if fate is ValueFate.USED else []

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
