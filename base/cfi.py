# SPDX-License-Identifier: GPL-2.0-or-later
"""Call frame information: how the registers of a function's caller are found.

Document: DWARF 5 sections 6.4, 7.24 and 2.5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum

from kpfs.base.data_model import DataModel
from kpfs.base.ktypes import MASK64
from kpfs.base.leb128 import read_sleb, read_uleb
from kpfs.base.typed import NamedTuple


class Cfa(IntEnum):
    """Call frame instructions, DW_CFA_*."""

    NOP = 0x00
    ADVANCE_LOC1 = 0x02
    ADVANCE_LOC2 = 0x03
    ADVANCE_LOC4 = 0x04
    OFFSET_EXTENDED = 0x05
    RESTORE_EXTENDED = 0x06
    UNDEFINED = 0x07
    SAME_VALUE = 0x08
    REMEMBER_STATE = 0x0A
    RESTORE_STATE = 0x0B
    DEF_CFA = 0x0C
    DEF_CFA_REGISTER = 0x0D
    DEF_CFA_OFFSET = 0x0E
    DEF_CFA_EXPRESSION = 0x0F
    EXPRESSION = 0x10
    OFFSET_EXTENDED_SF = 0x11
    GNU_ARGS_SIZE = 0x2E
    # in the two high bits; the low ones are the operand
    ADVANCE_LOC = 0x40
    OFFSET = 0x80
    RESTORE = 0xC0


class CfaOp(IntEnum):
    """Operations of expressions, DW_OP_*."""

    DEREF = 0x06
    PLUS_UCONST = 0x23
    BREG0 = 0x70  # and the following, for each register


_OPERATION, _OPERAND = 0xC0, 0x3F
_ADVANCES = {Cfa.ADVANCE_LOC1: 1, Cfa.ADVANCE_LOC2: 2, Cfa.ADVANCE_LOC4: 4}
Rule = int | bytes | None  # at an offset from the CFA, at an expression, undefined
Place = tuple[int, int] | bytes  # a register and an offset, or an expression
Words = Mapping[int, int]  # registers by their numbers


class Cie(NamedTuple):
    """Common information: that of the descriptions of many functions."""

    code_align: int  # bytes of text
    data_align: int  # bytes of the stack
    return_column: int  # number of the return address
    initial: bytes  # instructions


class CfiRules:
    """The rules that hold at an instruction."""

    def __init__(self, cie: Cie, program: bytes, left: int, model: DataModel) -> None:
        """left: bytes of text from the begin of the function to the instruction.

        program: the function's own instructions.  Raises KeyError: one is unknown here.
        """
        self.cfa: Place = b""
        self.saved: dict[int, Rule] = {}
        self._cie, self._model = cie, model
        self._kept: list[tuple[Place, dict[int, Rule]]] = []
        self._initial: dict[int, Rule] = {}
        self._run(cie.initial, 0)
        self._initial = dict(self.saved)
        self._run(program, left)

    def _run(self, program: bytes, left: int) -> None:
        at, end = 0, len(program)
        while at < end:
            code, at = program[at], at + 1
            high, low = code & _OPERATION, code & _OPERAND
            if high == Cfa.ADVANCE_LOC or code in _ADVANCES:
                size = _ADVANCES.get(code, 0)  # type: ignore[call-overload]
                step = self._model.number(program[at : at + size]) if size else low
                at, left = at + size, left - step * self._cie.code_align
                if step and left < 0:
                    return
            elif high == Cfa.OFFSET:
                offset, at = read_uleb(program, at)
                self.saved[low] = offset * self._cie.data_align
            elif high == Cfa.RESTORE:
                self._restore(low)
            elif code == Cfa.REMEMBER_STATE:
                self._kept.append((self.cfa, dict(self.saved)))
            elif code == Cfa.RESTORE_STATE:
                self.cfa, self.saved = self._kept.pop()
            elif code == Cfa.DEF_CFA_EXPRESSION:
                self.cfa, at = _block(program, at)
            elif code:
                at = self._other(code, program, at)

    def _restore(self, number: int) -> None:
        if number in self._initial:
            self.saved[number] = self._initial[number]
        else:
            self.saved.pop(number, None)

    def _other(self, code: int, program: bytes, at: int) -> int:
        """Carry out what has a number as its first operand; return what is behind."""
        number, at = read_uleb(program, at)
        if code == Cfa.DEF_CFA:
            offset, at = read_uleb(program, at)
            self.cfa = number, offset
        elif code == Cfa.DEF_CFA_REGISTER and not isinstance(self.cfa, bytes):
            self.cfa = number, self.cfa[1]
        elif code == Cfa.DEF_CFA_OFFSET and not isinstance(self.cfa, bytes):
            self.cfa = self.cfa[0], number
        elif code == Cfa.RESTORE_EXTENDED:
            self._restore(number)
        elif code == Cfa.SAME_VALUE:
            self.saved.pop(number, None)
        elif code == Cfa.UNDEFINED:
            self.saved[number] = None
        elif code == Cfa.EXPRESSION:
            self.saved[number], at = _block(program, at)
        elif code in (Cfa.OFFSET_EXTENDED, Cfa.OFFSET_EXTENDED_SF):
            read_offset = read_uleb if code == Cfa.OFFSET_EXTENDED else read_sleb
            offset, at = read_offset(program, at)
            self.saved[number] = offset * self._cie.data_align
        elif code != Cfa.GNU_ARGS_SIZE:
            raise KeyError(code)
        return at

    def caller(
        self, registers: Words, read: Callable[[int], int], stack: int, above: int = 0
    ) -> dict[int, int]:
        """Return the registers of the caller, without those that are not known.

        read: of a word of memory.  stack: the number of the stack pointer.  above:
        bytes from that to the CFA, in the caller.  Raises KeyError, MemoryFault.
        """
        if isinstance(self.cfa, bytes):
            cfa = _evaluate(self.cfa, registers, read)
        else:
            number, offset = self.cfa
            cfa = registers[number] + offset & MASK64
        found = dict(registers) | {stack: cfa - above}
        for number, rule in self.saved.items():
            if rule is None:
                found.pop(number, None)
            elif isinstance(rule, bytes):
                found[number] = read(_evaluate(rule, registers, read))
            else:
                found[number] = read(cfa + rule & MASK64)
        return found


def _evaluate(expression: bytes, registers: Words, read: Callable[[int], int]) -> int:
    """Return the value of an expression over one register.  KeyError, MemoryFault."""
    at, value = 0, 0
    while at < len(expression):
        code, at = expression[at], at + 1
        if code == CfaOp.DEREF:
            value = read(value)
        elif code == CfaOp.PLUS_UCONST:
            more, at = read_uleb(expression, at)
            value = value + more & MASK64
        else:
            offset, at = read_sleb(expression, at)
            value = registers[code - CfaOp.BREG0] + offset & MASK64
    return value


def _block(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = read_uleb(data, at)
    return data[at : at + size], at + size
