# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds the callers of functions by .debug_frame, such as vmlinux.py makes it.

Document: DWARF 5 sections 6.4 and 2.5.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from kpfs.base import elf
from kpfs.base.data_model import DataModel
from kpfs.base.ktypes import MASK64
from kpfs.base.leb128 import read_sleb, read_uleb
from kpfs.linux.memory.call_frames import (
    BREG,
    DEF_CFA_EXPRESSION,
    DEREF,
    EXPRESSION,
    OFFSET_SIGNED,
    PLUS,
)

_NO_CIE = 0xFFFF_FFFF  # the word of a CIE where an FDE has the place of its own
_CIE = "II"
_FDE = "IILL"  # bytes behind the first word, place of the CIE, begin and size of text
_VERSION_SIZE = 1  # bytes, behind the two words
_SIGNAL = ord("S")
# operations: those with an operand in their six low bits, then the others
_ADVANCE, _OFFSET, _LOW = 1, 2, 0x3F
_ADVANCE1, _ADVANCE2, _ADVANCE4 = 0x02, 0x03, 0x04
_UNDEFINED, _SAME, _REMEMBER, _RESTORE = 0x07, 0x08, 0x0A, 0x0B
_DEF_CFA = 0x0C
_ADVANCES = {_ADVANCE1: 1, _ADVANCE2: 2, _ADVANCE4: 4}

Words = Mapping[int, int]  # registers by their numbers
ReadWord = Callable[[int], int]


class Numbering(NamedTuple):
    """The numbers of an architecture's registers in DWARF."""

    names: tuple[str, ...]  # that debuggers use, by number
    stack: int
    counter: int
    link: int = -1  # the return address when a function begins; -1: it is on the stack
    above: int = 0  # bytes from a stack pointer to what DWARF calls the caller's stack


UNKNOWN = Numbering((), stack=-1, counter=-1)
_X86 = "rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip"
_I386, _SP = "eax ecx edx ebx esp ebp esi edi eip", 13
_X = (*(f"x{n}" for n in range(31)),)
_GPRS, _LR, _NIP = 32, 65, 67  # ppc64
_R = tuple(f"r{n}" for n in range(_GPRS))
_S390_GPRS, _PSW_ADDR = 16, 65
NUMBERINGS = {
    elf.EM_X86_64: Numbering(tuple(_X86.split()), stack=7, counter=16),
    elf.EM_386: Numbering(tuple(_I386.split()), stack=4, counter=8),
    elf.EM_ARM: Numbering((*_R[:_SP], "sp", "lr", "pc"), stack=13, counter=15, link=14),
    elf.EM_AARCH64: Numbering((*_X, "sp", "pc"), stack=31, counter=32, link=30),
    elf.EM_RISCV: Numbering((*_X, "x31", "pc"), stack=2, counter=32, link=1),
    elf.EM_PPC64: Numbering(
        (*_R, *[""] * (_LR - _GPRS), "lr", "", "pc"), stack=1, counter=_NIP, link=_LR
    ),
    elf.EM_S390: Numbering(
        (*_R[:_S390_GPRS], *[""] * (_PSW_ADDR - _S390_GPRS), "pswa"),
        *(15, _PSW_ADDR, 14, 160),
    ),
}


class CallerFrame(NamedTuple):
    """The registers of a function's caller."""

    registers: dict[int, int]
    is_interrupted: bool  # it has called nothing: an interrupt came


class _Head(NamedTuple):
    """A CIE."""

    unit: int  # bytes of text
    step: int  # bytes of stack
    back: int  # number of the return address
    is_signal: bool
    begin: int  # where its operations are
    end: int


class _State:
    """The rules that hold at a place."""

    def __init__(self) -> None:
        self.cfa: tuple[int, int] | bytes = b""  # register and offset, or expression
        self.rules: dict[int, int | bytes | None] = {}  # offset, expression, undefined


class CallFrames:
    """The call frames of one text."""

    def __init__(
        self, section: bytes | memoryview, model: DataModel, numbering: Numbering
    ) -> None:
        self._bytes, self._model, self._numbering = bytes(section), model, numbering
        self._heads: dict[int, _Head] = {}
        self._rows = sorted(self._entries())
        self._starts = [start for start, *_ in self._rows]

    def _entries(self) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield begin, end, place of the CIE and of operations; know the CIEs."""
        at, data, short = 0, self._bytes, self._model.struct(_CIE)
        entry = self._model.struct(_FDE)
        while at + short.size <= len(data):
            size, kind = short.unpack_from(data, at)
            end = at + 4 + size
            if kind == _NO_CIE:
                self._heads[at] = self._head(at + short.size, end)
            else:
                _, place, start, length = entry.unpack_from(data, at)
                yield start, start + length, place, at + entry.size, end
            at = end

    def _head(self, at: int, end: int) -> _Head:
        data, at = self._bytes, at + _VERSION_SIZE
        behind = data.index(0, at)
        is_signal = _SIGNAL in data[at:behind]
        unit, at = read_uleb(data, behind + 1)
        step, at = read_sleb(data, at)
        return _Head(unit, step, data[at], is_signal, at + 1, end)

    def caller(
        self, registers: Mapping[int, int], read: ReadWord, *, is_call: bool
    ) -> CallerFrame | None:
        """Return the caller of the function that registers are in, None if it has none.

        is_call: the registers are those of a call, which is before the counter.
        KeyError: nothing is known of that text, or of a register.  MemoryFault.
        """
        counter = registers[self._numbering.counter]
        state, head = self._state_at(counter - is_call)
        if isinstance(state.cfa, bytes):
            cfa = _evaluate(state.cfa, registers, read)
        else:
            number, offset = state.cfa
            cfa = registers[number] + offset & MASK64
        found = dict(registers) | {self._numbering.stack: cfa - self._numbering.above}
        for number, rule in state.rules.items():
            if rule is None:
                found.pop(number, None)
            elif isinstance(rule, bytes):
                found[number] = read(_evaluate(rule, registers, read))
            else:
                found[number] = read(cfa + rule & MASK64)
        if head.back not in found:
            return None
        found[self._numbering.counter] = found[head.back]
        return CallerFrame(found, head.is_signal)

    def _state_at(self, at: int) -> tuple[_State, _Head]:
        """Return the rules at an address.  Raises KeyError."""
        number = bisect_right(self._starts, at) - 1
        start, end, place, begin, behind = self._rows[number] if number >= 0 else _NONE
        if not start <= at < end:
            raise KeyError(at)
        head, state = self._heads[place], _State()
        self._execute(state, head, head.begin, head.end, 0)
        self._execute(state, head, begin, behind, at - start)
        return state, head

    def _execute(
        self, state: _State, head: _Head, at: int, end: int, left: int
    ) -> None:
        """Apply operations up to left bytes of text behind their begin."""
        data, kept = self._bytes, [(state.cfa, state.rules)]
        while at < end:
            code, at = data[at], at + 1
            high, low = code >> 6, code & _LOW
            if high == _ADVANCE or code in _ADVANCES:
                size = _ADVANCES.get(code, 0)
                step = self._model.number(data[at : at + size]) if size else low
                at, left = at + size, left - step * head.unit
                if left < 0:
                    return
            elif high == _OFFSET:
                offset, at = read_uleb(data, at)
                state.rules[low] = offset * head.step
            elif code == _DEF_CFA:
                number, at = read_uleb(data, at)
                offset, at = read_uleb(data, at)
                state.cfa = number, offset
            elif code == DEF_CFA_EXPRESSION:
                state.cfa, at = _block(data, at)
            elif code == _REMEMBER:
                kept.append((state.cfa, dict(state.rules)))
            elif code == _RESTORE:
                state.cfa, state.rules = kept.pop()
            elif code:
                at = self._rule(state, head, code, at)

    def _rule(self, state: _State, head: _Head, code: int, at: int) -> int:
        """Apply an operation on one register; return what is behind it."""
        number, at = read_uleb(self._bytes, at)
        if code == _SAME:
            state.rules.pop(number, None)
        elif code == _UNDEFINED:
            state.rules[number] = None
        elif code == EXPRESSION:
            state.rules[number], at = _block(self._bytes, at)
        elif code == OFFSET_SIGNED:
            offset, at = read_sleb(self._bytes, at)
            state.rules[number] = offset * head.step
        else:
            raise KeyError(code)
        return at


_NONE = 0, 0, 0, 0, 0


def _evaluate(expression: bytes, registers: Mapping[int, int], read: ReadWord) -> int:
    """Return the value of an expression over one register.  KeyError, MemoryFault."""
    at, value = 0, 0
    while at < len(expression):
        code, at = expression[at], at + 1
        if code == DEREF:
            value = read(value)
        elif code == PLUS:
            more, at = read_uleb(expression, at)
            value = value + more & MASK64
        else:
            offset, at = read_sleb(expression, at)
            value = registers[code - BREG] + offset & MASK64
    return value


def _block(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = read_uleb(data, at)
    return data[at : at + size], at + size
