# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds the callers of functions by .debug_frame, such as vmlinux.py makes it.

Document: DWARF 5 section 6.4.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kpfs.base import elf
from kpfs.base.cfi import CfiRules, Cie, Words
from kpfs.base.data_model import DataModel
from kpfs.base.leb128 import read_sleb, read_uleb

_NO_CIE = 0xFFFF_FFFF  # the word of a CIE where an FDE has the place of its own
_CIE = "II"
_FDE = "IILL"  # bytes behind the first word, place of the CIE, begin and size of text
_VERSION_SIZE = 1  # bytes, behind the two words
_SIGNAL = ord("S")
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

    cie: Cie
    is_signal: bool


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
        return _Head(Cie(unit, step, data[at], data[at + 1 : end]), is_signal)

    def caller(
        self, registers: Words, read: ReadWord, *, is_call: bool
    ) -> CallerFrame | None:
        """Return the caller of the function that registers are in, None if it has none.

        is_call: the registers are those of a call, which is before the counter.
        KeyError: nothing is known of that text, or of a register.  MemoryFault.
        """
        numbers = self._numbering
        rules, head = self._rules_at(registers[numbers.counter] - is_call)
        found = rules.caller(registers, read, numbers.stack, numbers.above)
        if head.cie.return_column not in found:
            return None
        found[numbers.counter] = found[head.cie.return_column]
        return CallerFrame(found, head.is_signal)

    def _rules_at(self, at: int) -> tuple[CfiRules, _Head]:
        """Return the rules at an address.  Raises KeyError."""
        number = bisect_right(self._starts, at) - 1
        start, end, place, begin, behind = self._rows[number] if number >= 0 else _NONE
        if not start <= at < end:
            raise KeyError(at)
        head, program = self._heads[place], self._bytes[begin:behind]
        return CfiRules(head.cie, program, at - start, self._model), head


_NONE = 0, 0, 0, 0, 0
