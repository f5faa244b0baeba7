# SPDX-License-Identifier: GPL-2.0-or-later
"""Call frame information for debuggers, made of the text of arm64 and riscv64 kernels.

Such a kernel has no ORC tables.  But functions keep a *record* on their stack, which is
the caller's frame pointer and the return address, and their own frame pointer tells
where it is.  Compilers make records by few forms of instructions, so the text says
where in a function which of them has been executed.  Debuggers guess as much by
themselves, but stop at the first instruction that they do not expect.

Document: Procedure Call Standard for the Arm 64-bit Architecture, section 6.4.6;
RISC-V ABIs, section "Frame Pointer Convention"; RISC-V Unprivileged ISA, chapter "C".
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from kpfs.base.data_model import LITTLE_64
from kpfs.linux.memory.call_frames import (
    THREADS,
    Code,
    FunctionFrames,
    Row,
    cfa,
    cfa_behind,
    interrupted,
    kept,
)

MAX_PROLOGUE = 32  # instructions
_MAX_EPILOGUE = 20
_REMEMBER, _RESTORE = b"\x0a", b"\x0b"  # DWARF: operations


class _Step(NamedTuple):
    """An instruction of an epilogue."""

    behind: int  # the number of what follows it
    frees: bool  # it moves the stack pointer up
    leaves: bool  # it jumps, or returns


class _RecordCode(Code):
    """Code whose functions keep frame records."""

    def epilogue(self, load: int, stack: int, steps: Iterable[_Step]) -> Iterator[Row]:
        """Yield what holds from where a record is taken away to a jump behind that.

        load: the number of what follows.  stack: what is still to be freed.
        """
        yield load, _REMEMBER + self.cfa(stack) + self.unsaved
        behind = load
        for behind, frees, leaves in islice(steps, _MAX_EPILOGUE):
            if frees:
                yield behind, self.cfa(0)
            if leaves:
                break
        yield behind, _RESTORE


# ---- arm64
_WORD = 4
# stp x29, x30, [sp, #n] and stp x29, x30, [sp, #-n]!
_STORE = re.compile(rb"\xfd[\x7b\xfb][\x00-\x3f\x80-\xbf]\xa9")
# ldp x29, x30, [sp, #n] and ldp x29, x30, [sp], #n
_LOAD = re.compile(rb"\xfd[\x7b\xfb](?:[\x40-\x7f]\xa9|[\xc0-\xff]\xa8)")
_INDEXED = 1 << 23  # in both forms: they move the stack pointer
_STACK_BY = 0xFF80_03FF  # add or sub sp, sp, #n
_SUB_SP, _ADD_SP = 0xD100_03FF, 0x9100_03FF
_SET_FRAME, _SET_FRAME_MASK = 0x9100_03FD, 0xFFC0_03FF  # add x29, sp, #n
_B, _B_MASK = 0x1400_0000, 0xFC00_0000
_BR, _BR_MASK = 0xD61F_0000, 0xFF9F_0000  # br, ret; and blr, which no epilogue has
_X29, _X30, _SP, _PC = 29, 30, 31, 32
_SP_PLACE, _PC_PLACE = 248, 256  # in struct pt_regs, which begins with x0 to x30


class _Arm64(_RecordCode):
    unit = _WORD
    back, stack, counter = _X30, _SP, _PC
    saved = _X29, _X30
    # entries from the kernel itself, then those from programs
    interrupts = (("el1t_64_sync", "el0t_64_sync"),)
    lasts = (("el0t_64_sync", "__entry_text_end"), *THREADS)

    def functions(self, text: bytes, starts: Sequence[int]) -> Iterator[FunctionFrames]:
        words = LITTLE_64.array("I", text[: len(text) & -_WORD])
        ends = [*starts[1:], len(words)]
        stores, loads = _numbers(_STORE, text), _numbers(_LOAD, text)
        last = -1
        for at in stores:
            number = bisect_right(starts, at) - 1
            if number <= last:  # it is not the first one there
                continue
            last, begin, end = number, starts[number], ends[number]
            ours = loads[bisect_left(loads, at) : bisect_left(loads, end)]
            if at - begin < MAX_PROLOGUE:
                yield FunctionFrames(
                    begin, end, self._rows(words, begin, at, end, ours)
                )

    def interrupted(self, record: int, text: bytes) -> bytes:
        """Return the rules where x29 points to the record in a struct pt_regs."""
        places = {number: 8 * number for number in range(_SP)} | {_PC: _PC_PLACE}
        stack = cfa_behind(_X29, _SP_PLACE - record)
        return interrupted(_X29, -record, stack, places) if record else b""

    def _rows(
        self,
        words: Sequence[int],
        begin: int,
        at: int,
        end: int,
        loads: Sequence[int],
    ) -> Iterator[Row]:
        """Yield what holds in a function, whose record is made at an instruction.

        loads: the instructions behind it that take the record away.  Nothing is yielded
        if the function does otherwise.
        """
        size, place = _offset(words[at]), 0
        if words[at] & _INDEXED:
            size = -size
        else:
            place, size = size, 0
            for number in range(begin, at):
                if words[number] & _STACK_BY == _SUB_SP:
                    size = _amount(words[number])
                    yield number + 1, self.cfa(size)
        above = size - place  # bytes from the record up to the caller's stack
        if above < 2 * 8:
            return
        yield at + 1, self.cfa(size) + kept(_X29, above) + kept(_X30, above - 8)
        for number in range(at + 1, min(at + MAX_PROLOGUE, end)):
            word = words[number]
            if word & _SET_FRAME_MASK == _SET_FRAME and word >> 10 & 0xFFF == place:
                yield number + 1, cfa(_X29, above)
                break
        for load in loads:
            stack = 0 if words[load] & _INDEXED else size
            yield from self.epilogue(load + 1, stack, _steps(words, load + 1, end))


def _steps(words: Sequence[int], begin: int, end: int) -> Iterator[_Step]:
    for number in range(begin, end):
        word = words[number]
        leaves = word & _B_MASK == _B or word & _BR_MASK == _BR
        yield _Step(number + 1, word & _STACK_BY == _ADD_SP, leaves)


def _numbers(pattern: re.Pattern[bytes], text: bytes) -> list[int]:
    """Return the numbers of the instructions that are of a form."""
    places = [found.start() for found in pattern.finditer(text)]
    return [place // _WORD for place in places if not place % _WORD]


def _offset(word: int) -> int:
    """Return the offset of a load or store of two registers."""
    number = word >> 15 & 0x7F
    return (number - (number >> 6 << 7)) * 8


def _amount(word: int) -> int:
    """Return what is added or subtracted."""
    return (word >> 10 & 0xFFF) << (12 if word >> 22 & 1 else 0)


# ---- riscv64
def _bytes(mask: int, wanted: int) -> bytes:
    """Return a pattern for a byte that has some bits."""
    found = bytes(byte for byte in range(256) if byte & mask == wanted)
    return b"[" + re.escape(found) + b"]"


_LONG_IF = 3  # both lowest bits of an instruction of four bytes are set
_SHORT = b"|".join(_bytes(3, low) + b"." for low in range(_LONG_IF))
_ANY = b"(?:" + _SHORT + b"|" + _bytes(3, _LONG_IF) + b"...)"
# up to addi sp, sp, n: in two bytes by either form, in four
_MOVE = _bytes(0x83, 1) + rb"[\x01\x11\x61\x71]|\x13\x01" + _bytes(0x0F, 1)
_TO_MOVE = re.compile(
    _ANY + b"{0,%d}?" % MAX_PROLOGUE + b"(?=" + _MOVE + b")", re.DOTALL
)
# up to ld s0, n(sp)
_RELOAD = _bytes(0x83, 2) + rb"[\x64\x74]|\x03\x34" + _bytes(0x0F, 1)
_TO_RELOAD = re.compile(_ANY + b"*?(?=" + _RELOAD + b")", re.DOTALL)
_RA, _RISCV_SP, _S0, _EPC = 1, 2, 8, 64
_ADDI_SP, _ADDI_S0, _ADDI_MASK = 0x0001_0113, 0x0001_0413, 0x000F_FFFF
_LD_S0 = 0x0001_3403
_SD, _SD_MASK = 0x0001_3023, 0x000F_F07F
# forms of two bytes; numbers in them are scattered: (bit, its place in the number)
_C_ADDI16SP, _C_ADDI_SP, _C_LDSP_S0, _C_SP_MASK = 0x6101, 0x0101, 0x6402, 0xEF83
_C_ADDI4SPN_S0, _C_4SPN_MASK = 0x0000, 0xE01F
_C_SDSP, _C_SDSP_MASK = 0xE002, 0xE003
_16SP = (2, 5), (3, 7), (4, 8), (5, 6), (6, 4), (12, 9)
_IMMEDIATE = (2, 0), (3, 1), (4, 2), (5, 3), (6, 4), (12, 5)
_4SPN = (5, 3), (6, 2), (7, 6), (8, 7), (9, 8), (10, 9), (11, 4), (12, 5)
_SDSP = (7, 6), (8, 7), (9, 8), (10, 3), (11, 4), (12, 5)
_LDSP = (2, 6), (3, 7), (4, 8), (5, 3), (6, 4), (12, 5)
# jumps that keep no return address, and returns
_LEAVES = (
    *((0xF07F, 0x8002), (0xE003, 0xA001)),  # c.jr, c.j
    *((0x0FFF, 0x006F), (0x0FFF, 0x0067)),  # jal zero, jalr zero
)


_MEANINGS = 1 << 12  # instructions whose meaning is remembered: most are of few forms


class _Kind(Enum):
    """The effect of an instruction, by a number."""

    OTHER = 0
    MOVE = 1  # it adds to the stack pointer
    STORE = 2  # a register at so much above that
    FRAME = 3  # it sets the frame pointer to so much above that
    LOAD = 4  # the frame pointer from there
    LEAVE = 5  # it jumps without keeping a return address, or returns


class _Riscv64(_RecordCode):
    """A leaf keeps the frame pointer alone, and returns by the register."""

    unit = 2
    back, stack, counter = _RA, _RISCV_SP, _EPC
    saved = _S0, _RA
    # entries from the kernel and from programs are at one place
    lasts = (*THREADS, ("handle_exception", ""), ("ret_from_exception", ""))

    def functions(self, text: bytes, starts: Sequence[int]) -> Iterator[FunctionFrames]:
        ends = [*starts[1:], len(text) // self.unit]
        for begin, end in zip(starts, ends, strict=True):
            found = _TO_MOVE.match(text, begin * self.unit, end * self.unit)
            if found:
                rows = self._rows(text, found.end(), end * self.unit)
                yield FunctionFrames(begin, end, rows)

    def interrupted(self, record: int, text: bytes) -> bytes:
        return b""

    def _rows(self, text: bytes, at: int, end: int) -> Iterator[Row]:
        """Yield what holds in a function, which moves the stack pointer at a place.

        Nothing is yielded if it has no frame pointer.
        """
        rows: list[Row] = []
        size, last = 0, at
        saved: dict[int, int] = {}  # above the stack pointer, by register
        has_frame = False
        for behind, word in islice(_instructions(text, at, end), MAX_PROLOGUE):
            kind, register, number = _meaning(word)
            if kind is _Kind.MOVE and not has_frame and number < size:
                size -= number
                row = self.cfa(size)
            elif kind is _Kind.STORE and register in (_RA, _S0) and number < size:
                saved[register] = number
                row = kept(register, size - number)
            elif kind is _Kind.FRAME and not has_frame and number <= size:
                has_frame = True
                row = cfa(_S0, size - number)
            elif kind in (_Kind.LOAD, _Kind.LEAVE):
                break
            else:
                continue
            last = behind
            rows.append((last // self.unit, row))
            if has_frame and len(saved) == 2:
                break
        if has_frame and _S0 in saved:
            yield from rows
            yield from self._epilogues(text, last, end, size, saved[_S0])

    def _epilogues(
        self, text: bytes, at: int, end: int, size: int, place: int
    ) -> Iterator[Row]:
        """place: where s0 is saved, above the stack pointer."""
        while found := _TO_RELOAD.match(text, at, end):
            at, word = next(_instructions(text, found.end(), end))
            if _meaning(word)[2] == place:
                steps = _riscv_steps(text, at, end)
                yield from self.epilogue(at // self.unit, size, steps)


def _instructions(text: bytes, at: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield what is behind an instruction, and the instruction."""
    while at + 2 <= end:
        size = 4 if text[at] & 3 == _LONG_IF else 2
        word = LITTLE_64.number(text[at : at + size])
        at += size
        yield at, word


def _riscv_steps(text: bytes, at: int, end: int) -> Iterator[_Step]:
    for behind, word in _instructions(text, at, end):
        kind, _, number = _meaning(word)
        frees = kind is _Kind.MOVE and number > 0
        yield _Step(behind // _Riscv64.unit, frees, kind is _Kind.LEAVE)


@lru_cache(_MEANINGS)
def _meaning(word: int) -> tuple[_Kind, int, int]:
    """Return what an instruction does, a register, and a number."""
    if word & _ADDI_MASK == _ADDI_SP:
        return _Kind.MOVE, _RISCV_SP, _signed(word >> 20, 12)
    if word & _C_SP_MASK == _C_ADDI16SP:
        return _Kind.MOVE, _RISCV_SP, _signed(_scattered(word, _16SP), 10)
    if word & _C_SP_MASK == _C_ADDI_SP:
        return _Kind.MOVE, _RISCV_SP, _signed(_scattered(word, _IMMEDIATE), 6)
    if word & _C_SDSP_MASK == _C_SDSP:
        return _Kind.STORE, word >> 2 & 31, _scattered(word, _SDSP)
    if word & _SD_MASK == _SD:
        offset = word >> 25 << 5 | word >> 7 & 31
        return _Kind.STORE, word >> 20 & 31, _signed(offset, 12)
    if word & _ADDI_MASK == _ADDI_S0:
        return _Kind.FRAME, _S0, _signed(word >> 20, 12)
    if word & _C_4SPN_MASK == _C_ADDI4SPN_S0 and word:
        return _Kind.FRAME, _S0, _scattered(word, _4SPN)
    if word & _ADDI_MASK == _LD_S0:
        return _Kind.LOAD, _S0, _signed(word >> 20, 12)
    if word & _C_SP_MASK == _C_LDSP_S0:
        return _Kind.LOAD, _S0, _scattered(word, _LDSP)
    leaves = any(word & mask == form for mask, form in _LEAVES)
    return _Kind.LEAVE if leaves else _Kind.OTHER, 0, 0


def _scattered(word: int, bits: Iterable[tuple[int, int]]) -> int:
    return sum((word >> bit & 1) << place for bit, place in bits)


def _signed(number: int, bits: int) -> int:
    return number - (number >> bits - 1 << bits)


ARM64, RISCV64 = _Arm64(), _Riscv64()
