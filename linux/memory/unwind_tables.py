# SPDX-License-Identifier: GPL-2.0-or-later
"""Call frame information for debuggers, made of the tables of 32-bit Arm kernels.

A kernel without frame pointers has a row for each function: where it begins, and how
the registers of its caller are found, in codes of a byte. The table lies behind the
text, without a symbol that kallsyms lists. It is known by its rows, which are in order.
A module has a section with such a table for each section of its text.

Document: Exception Handling ABI for the Arm Architecture, sections 6 and 10.3.
Kernel: arch/arm/kernel/unwind.c
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, pairwise
from typing import NamedTuple

from kpfs.base.data_model import LITTLE_32
from kpfs.base.errors import MemoryFault
from kpfs.base.leb128 import read_uleb
from kpfs.base.units import PAGE_SIZE
from kpfs.linux.memory.call_frames import (
    THREADS,
    Named,
    Spans,
    advance,
    cfa,
    entry,
    head,
    kept,
    same,
    undefined,
)
from kpfs.linux.memory.memory import KernelMemory

LASTS: Named = (
    *THREADS,
    *((name, "") for name in ("ret_fast_syscall", "__sys_trace_return")),
)
SECTION = ".ARM.exidx"  # begins the names of such sections of a module
_LONG = LITTLE_32.long
_SP, _LR = 13, 14
_ROW, _SAMPLE = 2 * _LONG, 32  # bytes; rows by which a table is known
_MOST = 16 << 20  # bytes behind the text in which the table is sought
_CANNOT, _INLINE = 1, 1 << 31
# the least codes of kinds, and others by themselves
_POP_MANY, _SET_STACK, _POP = 0x80, 0x90, 0xA0
_FINISH, _POP_FIRST, _LARGE = 0xB0, 0xB1, 0xB2
_LARGE_BASE = 0x204  # bytes
_PROLOGUE = 32  # bytes that are looked at
_PUSH, _PUSH_LR, _SUB, _SUB_MASK = 0xE92D, 0xE52D_E004, 0xE24D_D000, 0xFFFF_F000
_SAVED = b"".join(map(same, (*range(4, 12), _LR)))


class _UnknownError(Exception):
    """Codes do not tell where the caller's registers are."""


class _Row(NamedTuple):
    """A row of the table."""

    begin: int  # where a function begins
    codes: bytes  # b"": nothing calls it


def debug_frame(memory: KernelMemory, start: int, end: int, lasts: Spans = ()) -> bytes:
    """Return .debug_frame for the kernel's text of [start, end); MemoryFault."""
    text, table = [(start, end)], (_table(memory, start, end), 1 << 32)
    return _frames(memory, text, _rows(memory, table, text), lasts)


def module_frame(memory: KernelMemory, texts: Spans, tables: Spans) -> bytes:
    """Return .debug_frame for a module's texts, each of whose tables has a section."""
    rows = (_rows(memory, table, texts) for table in tables)
    return _frames(memory, texts, sorted(chain.from_iterable(rows)))


def _frames(
    memory: KernelMemory, texts: Spans, rows: Iterable[_Row], lasts: Spans = ()
) -> bytes:
    """Return .debug_frame.  rows: in the order of the texts."""
    begin = cfa(_SP, 0) + _SAVED
    heads = [
        head(code, _LR, model=LITTLE_32)
        for code in (begin, cfa(_SP, 0) + undefined(_LR))
    ]
    pieces, last, rows = [*heads], len(heads[0]), [*rows]
    for start, end in texts:
        own = (row for row in rows if start <= row.begin < end)
        for row, following in pairwise((*own, _Row(end, b""))):
            if any(low <= row.begin < high for low, high in lasts):
                continue
            if row.codes and (found := _unwound(row.codes)):
                size = min(_PROLOGUE, following.begin - row.begin)
                code = memory.model.array("I", memory.read(row.begin, size))
                rules = _rules(found, code)
                pieces.append(entry(0, row.begin, following.begin, rules, LITTLE_32))
    for low, high in lasts:  # calls may return to their first instruction
        pieces.append(entry(last, low - _LONG, high, b"", LITTLE_32))
    return b"".join(pieces)


def _rows(memory: KernelMemory, table: tuple[int, int], texts: Spans) -> Iterator[_Row]:
    """Yield the rows of a table, as long as they are of these texts.  MemoryFault."""
    for at in range(*table, _ROW):
        begin, word = _leads(at, memory.word(at)), memory.word(at + _LONG)
        if not any(start <= begin < end for start, end in texts):
            return
        if word == _CANNOT:
            codes = b""
        elif word & _INLINE:
            codes = _codes(word, b"")
        else:
            place = _leads(at + _LONG, word)
            first = memory.word(place)
            more = first >> 16 & 0xFF if first >> 24 & 0xF else 0
            words = (memory.word(place + _LONG * (n + 1)) for n in range(more))
            rest = b"".join(word.to_bytes(_LONG, "big") for word in words)
            codes = _codes(first, rest)
        yield _Row(begin, codes)


def _codes(first: int, rest: bytes) -> bytes:
    """Return the codes of a row.  first: of the three or two of them in a word."""
    raw = first.to_bytes(_LONG, "big")
    return raw[2 if first >> 24 & 0xF else 1 :] + rest


def _leads(at: int, word: int) -> int:
    """Return where a word leads, which counts from its own place in 31 bits."""
    offset = word & (1 << 31) - 1
    return at + offset - (offset >> 30 << 31) & (1 << 32) - 1


def _table(memory: KernelMemory, start: int, end: int) -> int:
    """Return where the table begins: its rows are in the order of the text."""

    def function(at: int) -> int:
        begin = _leads(at, memory.word(at))
        return begin if start <= begin < end else 0

    def is_table(at: int) -> bool:
        begins = [function(at + number * _ROW) for number in range(_SAMPLE)]
        return all(0 < one < other for one, other in pairwise(begins))

    for page in range(end & -PAGE_SIZE, end + _MOST, PAGE_SIZE):
        with suppress(MemoryFault):
            for at in (page, page + _LONG):
                if is_table(at):
                    while 0 < function(at - _ROW) < function(at):
                        at -= _ROW
                    return at
    raise MemoryFault(end)


class _Unwound:
    """The places of a caller's registers, as far as codes have told."""

    def __init__(self, codes: bytes) -> None:
        self._codes, self._at = codes, 0
        # what DWARF calls the caller's stack when all codes are done
        self.base, self.above = _SP, 0
        self.saved: dict[int, tuple[int, int]] = {}

    def pop(self, mask: int, first: int) -> None:
        """Take registers off the stack, the first of which has bit 0."""
        for bit in range(mask.bit_length()):
            if mask >> bit & 1:
                self.saved[first + bit] = self.base, self.above
                self.above += _LONG

    def _next(self) -> int:
        self._at += 1
        return self._codes[self._at - 1]

    def apply(self) -> bool:
        """Apply the next code; return False at the last.  IndexError: it is cut."""
        code = self._next() if self._at < len(self._codes) else _FINISH
        if code < _POP_MANY:
            size = ((code & 0x3F) + 1) * _LONG
            self.above += -size if code & 0x40 else size
        elif code < _SET_STACK:
            mask = (code & 0xF) << 8 | self._next()
            if not mask:
                raise _UnknownError  # the caller cannot be found
            self.pop(mask, 4)
        elif code < _POP:
            self.base, self.above = code & 0xF, 0
        elif code < _FINISH:
            self.pop((1 << (code & 7) + 1) - 1, 4)
            self.pop(code >> 3 & 1, _LR)
        elif code == _POP_FIRST:
            self.pop(self._next() & 0xF, 0)
        elif code == _LARGE:
            number, self._at = read_uleb(self._codes, self._at)
            self.above += _LARGE_BASE + number * _LONG
        elif code != _FINISH:
            raise _UnknownError  # registers that the kernel does not use
        return code != _FINISH


def _unwound(codes: bytes) -> _Unwound | None:
    """Return what the codes of a function tell, None if that is not enough."""
    found = _Unwound(codes)
    try:
        while found.apply():
            pass
    except (_UnknownError, IndexError):
        return None
    # only offsets from the caller's stack can be told
    return found if {base for base, _ in found.saved.values()} <= {found.base} else None


def _rules(found: _Unwound, code: Sequence[int]) -> bytes:
    """Return the rules that hold in a function.  code: how it begins.

    They hold behind its prologue, which saves registers and then makes room.
    """
    saved = b"".join(
        kept(number, found.above - place, _LONG)
        for number, (_, place) in sorted(found.saved.items())
    )
    made = b""
    push = next((n for n, word in enumerate(code) if _is_push(word)), None)
    if push is not None:
        made += advance((push + 1) * _LONG)
        room = code[push + 1] if push + 1 < len(code) else 0
        if found.base == _SP and room & _SUB_MASK == _SUB:
            made += cfa(_SP, found.above - _immediate(room)) + saved + advance(_LONG)
    return made + cfa(found.base, found.above) + saved


def _is_push(word: int) -> bool:
    """Return True for push {...} of several registers, and of lr alone."""
    return word >> 16 == _PUSH or word == _PUSH_LR


def _immediate(word: int) -> int:
    """Return the number in an instruction, which is 8 bits that are turned."""
    number, turn = word & 0xFF, (word >> 8 & 0xF) * 2
    return (number >> turn | number << 32 - turn) & (1 << 32) - 1
