# SPDX-License-Identifier: GPL-2.0-or-later
"""Call frame information for debuggers, made of the text of an arm64 kernel.

Such a kernel has no ORC tables.  But all functions that call others keep a *record* on
their stack, which is the caller's frame pointer x29 and the return address, and x29
points at it.  Compilers make records by few forms of instructions, so the text says
where in a function which of them has been executed.  Debuggers guess as much by
themselves, but stop at the first instruction that they do not expect.

Document: Procedure Call Standard for the Arm 64-bit Architecture, section 6.4.6.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cache

from kpfs.linux.memory.call_frames import entry, head, sleb, uleb

_WORD = 4
# stp x29, x30, [sp, #n] and stp x29, x30, [sp, #-n]!
_STORE = re.compile(rb"\xfd[\x7b\xfb][\x00-\x3f\x80-\xbf]\xa9")
# ldp x29, x30, [sp, #n] and ldp x29, x30, [sp], #n
_LOAD = re.compile(rb"\xfd[\x7b\xfb](?:[\x40-\x7f]\xa9|[\xc0-\xff]\xa8)")
_INDEXED = 1 << 23  # of both: they move the stack pointer
_STACK_BY = 0xFF80_03FF  # add or sub sp, sp, #n
_SUB_SP, _ADD_SP = 0xD100_03FF, 0x9100_03FF
_SET_FRAME, _SET_FRAME_MASK = 0x9100_03FD, 0xFFC0_03FF  # add x29, sp, #n
_B, _B_MASK = 0x1400_0000, 0xFC00_0000
_BR, _BR_MASK = 0xD61F_0000, 0xFF9F_0000  # br, ret; and blr, which no epilogue has
MAX_PROLOGUE = 32  # instructions
_MAX_EPILOGUE = 12

# DWARF: numbers of registers, operations
_X29, _X30, _SP, _PC = 29, 30, 31, 32
_SP_PLACE, _PC_PLACE = 248, 256  # in struct pt_regs, which begins with x0 to x30
_DEF_CFA_EXPRESSION, _EXPRESSION, _BREG, _DEREF = 0x0F, 0x10, 0x70, 0x06
_ADVANCE, _ADVANCE4, _OFFSET, _UNDEFINED, _SAME = 0x40, 4, 0x80, 0x07, 0x08
_REMEMBER, _RESTORE, _DEF_CFA = 0x0A, 0x0B, 0x0C
_UNSAVED = bytes((_SAME, _X29, _SAME, _X30))
Row = tuple[int, bytes]  # the number of an instruction, what holds from there on


def debug_frame(
    start: int,
    text: bytes,
    functions: Sequence[int],
    lasts: Sequence[tuple[int, int]] = (),
    interrupts: Sequence[tuple[int, int]] = (),
    record: int = 0,
) -> bytes:
    """Return .debug_frame for text at an address.

    functions: where they begin, in order.  lasts: text where stacks end, [start, end).
    interrupts: text that has interrupted the kernel, where x29 points to the record in
    a struct pt_regs.  record: its place in that.
    """
    words = array("I", text[: len(text) & -_WORD])
    starts = [(at - start) // _WORD for at in functions]
    ends = [*starts[1:], len(words)]
    stores, loads = _numbers(_STORE, text), _numbers(_LOAD, text)
    pieces, last = [*_HEADS], -1
    for at in stores:
        number = bisect_right(starts, at) - 1
        if number <= last:  # it is not the first one there
            continue
        last, begin, end = number, starts[number], ends[number]
        ours = loads[bisect_left(loads, at) : bisect_left(loads, end)]
        code = b"".join(_placed(begin, _rows(words, begin, at, end, ours)))
        if code and at - begin < MAX_PROLOGUE:
            place, behind = start + _WORD * begin, start + _WORD * end
            pieces.append(entry(0, place, behind, code))
    for place, behind in lasts:
        if behind > place:
            pieces.append(entry(len(_HEADS[0]), place, behind, b""))
    for place, behind in interrupts:
        pieces.append(entry(_SIGNAL, place, behind, _interrupted(record)))
    return b"".join(pieces)


def _interrupted(record: int) -> bytes:
    """Return the rules by which all registers are those of a struct pt_regs."""

    def place(offset: int) -> bytes:
        return bytes((_BREG + _X29,)) + sleb(offset - record)

    stack = place(_SP_PLACE) + bytes((_DEREF,))
    code = bytes((_DEF_CFA_EXPRESSION, len(stack))) + stack
    saved = {number: 8 * number for number in range(_SP)}
    for number, offset in {**saved, _PC: _PC_PLACE}.items():
        code += bytes((_EXPRESSION, number, len(place(offset)))) + place(offset)
    return code


def _numbers(pattern: re.Pattern[bytes], text: bytes) -> list[int]:
    """Return the numbers of the instructions that are of a form."""
    places = [found.start() for found in pattern.finditer(text)]
    return [place // _WORD for place in places if not place % _WORD]


def _rows(
    words: Sequence[int], begin: int, at: int, end: int, loads: Sequence[int]
) -> Iterator[Row]:
    """Yield what holds in a function, whose record is made at an instruction.

    loads: the instructions behind it that take the record away.  Nothing is yielded if
    the function does otherwise.
    """
    size, place = _offset(words[at]), 0
    if words[at] & _INDEXED:
        size = -size
    else:
        place, size = size, 0
        for number in range(begin, at):
            if words[number] & _STACK_BY == _SUB_SP:
                size = _amount(words[number])
                yield number + 1, _cfa(_SP, size)
    above = size - place  # of the record, up to the caller's stack
    if above < 2 * 8:
        return
    yield at + 1, _cfa(_SP, size) + _record(above)
    for number in range(at + 1, min(at + MAX_PROLOGUE, end)):
        word = words[number]
        if word & _SET_FRAME_MASK == _SET_FRAME and word >> 10 & 0xFFF == place:
            yield number + 1, _cfa(_X29, above)
            break
    for load in loads:
        yield from _epilogue(words, load, min(load + _MAX_EPILOGUE, end), size)


def _epilogue(words: Sequence[int], load: int, end: int, size: int) -> Iterator[Row]:
    """Yield what holds from where a record is taken away to a jump behind that."""
    stack = 0 if words[load] & _INDEXED else size
    yield load + 1, bytes((_REMEMBER,)) + _cfa(_SP, stack) + _UNSAVED
    for number in range(load + 1, end):
        word = words[number]
        if word & _STACK_BY == _ADD_SP:
            yield number + 1, _cfa(_SP, 0)
        if word & _B_MASK == _B or word & _BR_MASK == _BR:
            yield number + 1, bytes((_RESTORE,))
            return
    yield end, bytes((_RESTORE,))


def _offset(word: int) -> int:
    """Return the offset of a load or store of two registers."""
    number = word >> 15 & 0x7F
    return (number - (number >> 6 << 7)) * 8


def _amount(word: int) -> int:
    """Return what is added or subtracted."""
    return (word >> 10 & 0xFFF) << (12 if word >> 22 & 1 else 0)


@cache
def _record(above: int) -> bytes:
    """Return where a record is, so many bytes below the caller's stack."""
    frame, back = uleb(above // 8), uleb(above // 8 - 1)
    return bytes((_OFFSET | _X29,)) + frame + bytes((_OFFSET | _X30,)) + back


@cache
def _cfa(register: int, offset: int) -> bytes:
    return bytes((_DEF_CFA, register)) + uleb(offset)


def _placed(begin: int, rows: Iterator[Row]) -> Iterator[bytes]:
    """Yield operations, and between them those that go on in the text."""
    at = begin
    for number, code in rows:
        step, at = number - at, number
        if step >= _ADVANCE:
            yield bytes((_ADVANCE4,)) + step.to_bytes(4, "little")
        elif step:
            yield bytes((_ADVANCE | step,))
        yield code


# what holds where a function begins; where stacks end; where the kernel is interrupted
_HEADS = (
    head(_cfa(_SP, 0) + _UNSAVED, _X30, step=_WORD),
    head(_cfa(_SP, 0) + bytes((_UNDEFINED, _X30)), _X30, step=_WORD),
    head(_cfa(_SP, 0) + _UNSAVED, _PC, step=_WORD, signal=b"S"),
)
_SIGNAL = len(_HEADS[0]) + len(_HEADS[1])
