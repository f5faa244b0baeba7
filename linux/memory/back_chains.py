# SPDX-License-Identifier: GPL-2.0-or-later
"""Call frame information for debuggers, made of the text of ppc64 and s390x kernels.

Each frame there has the address of its caller's frame at a fixed place: the back chain.
Return addresses have a fixed place, too. So the text has only to tell where in a
function its frame has been made. That is less simple than a prologue and an epilogue:
compilers make frames behind early returns, and place paths without a frame anywhere.

So a function is taken in pieces, which end at jumps that always jump. A piece that
makes a frame, or leaves the function without freeing one, began without a frame. Any
other piece behind the first that makes one began with it.

Document: 64-Bit ELF V2 ABI Specification (Power), section 2.2; s390x ELF Application
Binary Interface Supplement, section 1.2. Kernel: arch/s390/include/asm/stacktrace.h,
as its frames are packed.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from kpfs.base.data_model import BIG_64, LITTLE_64
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


class _Effect(Enum):
    """The effect of an instruction."""

    SAVES = 1  # registers
    MAKES = 2  # a frame
    CHAINS = 3  # that frame to its caller's
    FREES = 4  # the frame
    JUMPS = 5
    RETURNS = 6


_ANYWHERE = _Effect.SAVES, _Effect.FREES


class _Frame(Enum):
    """The frame of a function."""

    UNMADE = 1
    MADE = 2
    FREED = 3  # what was saved is still there


class _Event(NamedTuple):
    """An instruction that matters."""

    behind: int  # the number of the next one
    kind: _Effect
    row: bytes = b""  # what holds behind it
    target: int | None = None  # where a jump leads


class _ChainedCode(Code):
    """Code whose functions chain their frames."""

    knows_leaves = True

    @abstractmethod
    def events(self, text: bytes, begin: int, end: int) -> Iterator[_Event]:
        """Yield the instructions of a piece of text that matter, in order."""

    def functions(self, text: bytes, starts: Sequence[int]) -> Iterator[FunctionFrames]:
        for begin, end in pairwise((*starts, len(text) // self.unit)):
            events = list(self.events(text, begin * self.unit, end * self.unit))
            yield FunctionFrames(begin, end, self._rows(begin, end, events))

    def _rows(self, begin: int, end: int, events: Sequence[_Event]) -> Iterator[Row]:
        unmade, made, has_made = self.cfa(0) + self.unsaved, b"", False
        at, state = begin, _Frame.UNMADE
        for piece in _pieces(begin, end, events):
            kinds = [event.kind for event in piece]
            makes, frees = _Effect.MAKES in kinds, _Effect.FREES in kinds
            leaves = kinds[-1] is _Effect.RETURNS and not frees
            was = _Frame.MADE
            if makes or leaves or not has_made:
                was = _Frame.UNMADE
            if state is not was:
                yield at, made if was is _Frame.MADE else unmade
            for behind, kind, row, _ in piece:
                if row and (was is _Frame.UNMADE or kind in _ANYWHERE):
                    yield behind, row
                if kind is _Effect.SAVES or not (has_made or kind is _Effect.FREES):
                    made += row
            has_made = has_made or makes
            state = _Frame.MADE if makes else was
            at, state = piece[-1].behind, _Frame.FREED if frees else state


def _pieces(
    begin: int, end: int, events: Sequence[_Event]
) -> Iterator[Sequence[_Event]]:
    """Yield the events of each piece. What jumps out of its function leaves it."""
    first = 0
    for number, event in enumerate(events):
        if event.kind in (_Effect.JUMPS, _Effect.RETURNS):
            piece = list(events[first : number + 1])
            if event.target is not None and not begin <= event.target < end:
                piece[-1] = event._replace(kind=_Effect.RETURNS)
            yield piece
            first = number + 1
    if first < len(events):
        yield events[first:]


def _each(
    pattern: re.Pattern[bytes], text: bytes, at: int, end: int
) -> Iterator[re.Match[bytes]]:
    """Yield what matches one behind the other; nothing is skipped."""
    while found := pattern.match(text, at, end):
        yield found
        at = found.end()


# ---- ppc64: instructions are words, whose bytes are turned around for the patterns
_WORD = 4
_PPC_EVENT = re.compile(
    rb"(?:.{4})*?("
    rb"\x38\x21.."  # addi r1, r1, n
    rb"|\xe8\x21\0\0"  # ld r1, 0(r1)
    rb"|\xf8\x21.."  # stdu r1, n(r1)
    rb"|\x7c\x21.\x6a"  # stdux r1, r1, rN
    rb"|\xf8\x01.."  # std r0, n(r1)
    rb"|(?:\xf9[\xc1\xe1]|[\xfa\xfb][\x01\x21\x41\x61\x81\xa1\xc1\xe1])[\x80-\xff]."
    rb"|\x4e\x80[\x00\x04]\x20"  # blr, bctr
    rb"|[\x48-\x4b]..[%s])" % re.escape(bytes(range(0, 256, 4))),  # b
    re.DOTALL,
)
_ADDI_R1, _LD_R1, _STDU_R1, _STDUX_R1, _STD_R0 = 0x3821, 0xE821, 0xF821, 0x7C21, 0xF801
_BLR, _BCTR, _B, _B_REACH = 0x4E80_0020, 0x4E80_0420, 0x12, 26
_R1, _LR, _NIP = 1, 65, 67
_LR_PLACE = 16  # above the caller's stack pointer
_PPC_CHAIN = cfa_behind(_R1, 0)
_REGS_IN_R3 = re.compile(rb"(?:.{4})*?(..)\x61\x38", re.DOTALL)  # addi r3, r1, n
_PPC_REGS = {_LR: 288, _NIP: 256}  # places in struct pt_regs; r1 is the second there


class _Ppc64(_ChainedCode):
    unit = _WORD
    back, stack, counter = _LR, _R1, _NIP
    saved = (_LR,)
    interrupts = (
        ("system_reset_common", "system_call_vectored_common"),
        ("ftrace_regs_caller", ""),
        ("ftrace_caller", ""),
    )
    lasts = (
        *THREADS,
        ("system_call_vectored_common", "fast_interrupt_return_srr"),
        ("start_here_multiplatform", ""),
    )

    def events(self, text: bytes, begin: int, end: int) -> Iterator[_Event]:
        words = LITTLE_64.array("I", text[begin:end])
        words.byteswap()
        size = 0
        for found in _each(_PPC_EVENT, words.tobytes(), 0, end - begin):
            number = begin // _WORD + found.start(1) // _WORD
            word = BIG_64.number(found[1])
            high, low = word >> 16, word & 0xFFFC
            signed = low - (low >> 15 << 16)
            if high in (_ADDI_R1, _LD_R1):
                yield _Event(number + 1, _Effect.FREES, self.cfa(0))
            elif high in (_STDU_R1, _STDUX_R1):
                size = -signed
                yield _Event(number + 1, _Effect.MAKES, _PPC_CHAIN)
            elif high == _STD_R0 and signed in (_LR_PLACE, size + _LR_PLACE):
                yield _Event(number + 1, _Effect.SAVES, kept(_LR, -_LR_PLACE))
            elif high > _STD_R0:
                row = kept(word >> 21 & 31, -signed)
                yield _Event(number + 1, _Effect.SAVES, row)
            elif word == _BLR:
                yield _Event(number + 1, _Effect.RETURNS)
            elif word == _BCTR:
                yield _Event(number + 1, _Effect.JUMPS)
            elif word >> _B_REACH == _B:
                distance = word & (1 << _B_REACH) - 4
                distance -= distance >> _B_REACH - 1 << _B_REACH
                target = number + distance // _WORD
                yield _Event(number + 1, _Effect.JUMPS, target=target)

    def interrupted(self, record: int, text: bytes) -> bytes:
        """Return the rules where a handler is given the struct pt_regs, in r3."""
        found = _REGS_IN_R3.match(text)
        if not found:
            return b""
        offset = LITTLE_64.number(found[1])
        return interrupted(_R1, offset, cfa_behind(_R1, offset + 8), _PPC_REGS)


# ---- s390x
_HALF = 2
_S390_EVENT = re.compile(
    rb"(?:[\x00-\x3f].|[\x40-\xbf]...|[\xc0-\xff].{5})*?("
    rb"\xeb[\x6f\x7f\x8f\x9f\xaf\xbf\xcf\xdf\xef][\xf0-\xff]..[\x04\x24]"  # [ls]tmg
    rb"|\xe3\xf0[\xf0-\xff]..\x71"  # lay %r15, n(%r15)
    rb"|\xa7\xfb.."  # aghi %r15, n
    rb"|\xe3.\xf0\x98\x00\x24"  # stg %rN, 152(%r15)
    rb"|\x07[\xf0-\xff]"  # br
    rb"|\xa7\xf4..|\xc0\xf4....)",  # j, jg
    re.DOTALL,
)
_BR_R14, _AGHI, _J, _JG = b"\x07\xfe", b"\xa7\xfb", b"\xa7\xf4", b"\xc0\xf4"
_STMG = 0x24  # the last byte, as of stg
_R14, _R15, _PSW_ADDR = 14, 15, 65
_SAVED = range(6, 16)
_FRAME = 160  # from a stack pointer to what DWARF calls the caller's stack
_SAVED_PLACE, _CHAIN_PLACE = 72, 152  # above the stack pointer
_S390_CHAIN = cfa_behind(_R15, _CHAIN_PLACE, _FRAME)
# places in struct pt_regs, which is above a frame
_GPRS, _S390_REGS = 24, {n: 24 + 8 * n for n in range(16)} | {_PSW_ADDR: 16}


class _S390x(_ChainedCode):
    model = BIG_64
    unit = _HALF
    back, stack, counter = _R14, _R15, _PSW_ADDR
    saved = tuple(_SAVED)
    interrupts = tuple(
        (name, "")
        for name in (
            *("pgm_check_handler", "ext_int_handler", "io_int_handler"),
            *("mcck_int_handler", "ftrace_regs_caller", "ftrace_caller"),
            "ftrace_common",
        )
    )
    lasts = (*THREADS, ("system_call", ""))

    def cfa(self, offset: int) -> bytes:
        return cfa(self.stack, offset + _FRAME)

    def events(self, text: bytes, begin: int, end: int) -> Iterator[_Event]:
        for found in _each(_S390_EVENT, text, begin, end):
            insn, behind = found[1], found.end() // _HALF
            at, opcode = found.start(1), insn[:2]
            offset = BIG_64.number(insn[2:], signed=True)
            if insn[0] == 0xEB:
                first, place = insn[1] >> 4, _long_offset(insn)
                if insn[5] != _STMG:
                    yield _Event(behind, _Effect.FREES, self.cfa(0) + self.unsaved)
                elif place == _SAVED_PLACE + 8 * (first - _SAVED[0]):
                    rows = map(_saved_at, range(first, _SAVED[-1] + 1))
                    yield _Event(behind, _Effect.SAVES, b"".join(rows))
            elif insn[0] == 0xE3 and insn[5] == _STMG:
                yield _Event(behind, _Effect.CHAINS, _S390_CHAIN)
            elif insn[0] == 0xE3 or opcode == _AGHI:
                size = -(offset if opcode == _AGHI else _long_offset(insn))
                if size > 0:
                    yield _Event(behind, _Effect.MAKES, self.cfa(size))
            elif opcode in (_J, _JG):
                target = at // _HALF + offset
                yield _Event(behind, _Effect.JUMPS, target=target)
            else:
                is_return = insn == _BR_R14
                kind = _Effect.RETURNS if is_return else _Effect.JUMPS
                yield _Event(behind, kind)

    def interrupted(self, record: int, text: bytes) -> bytes:
        stack = cfa_behind(_R15, _FRAME + _GPRS + 8 * _R15, _FRAME)
        return interrupted(_R15, _FRAME, stack, _S390_REGS)


def _long_offset(insn: bytes) -> int:
    """Return the offset in an instruction of six bytes."""
    number = insn[4] << 12 | BIG_64.number(insn[2:4]) & 0xFFF
    return number - (number >> 19 << 20)


def _saved_at(register: int) -> bytes:
    above = _FRAME - _SAVED_PLACE - 8 * (register - _SAVED[0])
    return kept(register, above)


PPC64, S390X = _Ppc64(), _S390x()
