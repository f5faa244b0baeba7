# SPDX-License-Identifier: GPL-2.0-or-later
"""Call frame information for debuggers, made of a kernel's ORC tables.

A kernel for x86-64 finds its way up a stack by ORC: for each piece of text a row of six
bytes, which says where the stack pointer of the caller, its frame pointer and the
return address are. Debuggers know .debug_frame instead, which files without debug
information lack. It can say all that ORC says.

The layout of a row is in BTF, its numbers are not; they were renumbered twice. Those of
types are told by whether a row still has a bit ``end``. Of the two numberings of
registers the one counts by which rows mostly refer to the stack pointer.

Document: Documentation/arch/x86/orc-unwinder.rst, DWARF 5 section 6.4.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import chain
from operator import add, sub
from typing import NamedTuple

from kpfs.base.cfi import Cfa, CfaOp
from kpfs.base.data_model import LITTLE_64
from kpfs.linux.memory.btf import StructLayout
from kpfs.linux.memory.call_frames import (
    advance,
    entry,
    head,
    sleb,
    uleb,
)
from kpfs.linux.memory.memory import KernelMemory

_ROW = LITTLE_64.struct("hhH")  # offsets of stack and frame pointer; how they count
_LAYOUT = {"sp_offset": 0, "bp_offset": 2, "sp_reg": 4, "bp_reg": 4, "type": 5}
PLACE_SIZE = 4
MAX_ROWS = 1 << 21
_BLOCK = 256  # rows of one entry, which debuggers interpret from its begin
_FILLED = 64  # bytes between functions, at most
_SAMPLE = _ROW.size << 13  # bytes of rows

# DWARF: numbers of registers, operations of rules
_RBP, _RSP, _R10, _R13, _RDX, _RIP = 6, 7, 10, 13, 1, 16
# struct pt_regs: numbers of registers in its order; the place of each is 8 bytes more
_SAVED = 15, 14, 13, 12, _RBP, 3, 11, 10, 9, 8, 0, 2, _RDX, 4, 5
_IRET = 128  # the place of what an interrupt's frame begins with, rip
_CFA_IN_IRET = 24  # place of rsp in such a frame


class OrcTable(NamedTuple):
    """The place of a table in memory."""

    places: int  # address of the words that say of which text each row is
    rows: int  # address of the rows
    size: int  # its rows


class Kind(Enum):
    """The kind of a row."""

    UNKNOWN = 0  # nothing
    END = 1  # the stack ends here
    CALL = 2  # where a return address is
    REGS = 3  # where a struct pt_regs is
    IRET = 4  # where the end of one is, which an interrupt leaves


_GOES_ON = Kind.CALL, b""  # a row that changes nothing
_OLD_KINDS = Kind.CALL, Kind.REGS, Kind.IRET, Kind.IRET  # up to Linux 6.3
_KINDS = tuple(Kind)


class Base(NamedTuple):
    """The base of a place: a register, or the word at it plus the offset."""

    register: int  # number of DWARF
    at: bool = False  # the word at register + offset
    behind: bool = False  # the word at the register, plus offset


_PREV_SP = Base(-1)
_COMMON = {2: Base(_RDX), 4: Base(_RBP), 6: Base(_R10), 7: Base(_R13)}
# up to Linux 6.18 and since
_BASES = (
    {**_COMMON, 1: _PREV_SP, 5: Base(_RSP),
     8: Base(_RBP, at=True), 9: Base(_RSP, behind=True)},
    {**_COMMON, 3: Base(_RSP), 8: _PREV_SP,
     9: Base(_RSP, behind=True), 10: Base(_RBP, at=True)},
)  # fmt: skip


def debug_frame(
    memory: KernelMemory,
    layout: StructLayout,
    table: OrcTable,
    text: Sequence[tuple[int, int]],
    system_call: tuple[int, int] = (0, 0),
    moved: int = 0,
) -> bytes:
    """Return .debug_frame for pieces of text, [start, end) in the order of addresses.

    layout: of struct orc_entry.  system_call: text that programs alone enter, where
    stacks end.  moved: by how much a copy of the text, which is meant, lies higher.
    b"": the form of the table is unknown.  MemoryFault.
    """
    places, rows, count = table
    known = all(layout.at.get(name) == at for name, at in _LAYOUT.items())
    if not known or layout.size != _ROW.size or not 0 < count <= MAX_ROWS:
        return b""
    offsets = memory.model.array("i", memory.read(places, PLACE_SIZE * count))
    ends = places + PLACE_SIZE * count
    starts = list(map(add, offsets, range(places, ends, PLACE_SIZE)))
    raw = memory.read(rows, _ROW.size * count)
    stacks = Counter(word & 15 for _, _, word in _ROW.iter_unpack(raw[:_SAMPLE]))
    bases = max(_BASES, key=lambda each: _commonness(each, stacks))
    rules = _Rules(bases, has_end=layout.has("end"))
    pieces = [*_HEADS]
    for begin, end in text:
        first, last = bisect_right(starts, begin), bisect_left(starts, end)
        first = max(first - 1, 0)
        here = [max(at, begin) + moved for at in starts[first:last]]
        of_rows = _ROW.iter_unpack(raw[first * _ROW.size : last * _ROW.size])
        found = list(map(rules.__getitem__, of_rows))
        pieces += _Rows([*here, end + moved], found, range(*system_call)).entries()
    return b"".join(pieces)


def _commonness(bases: dict[int, Base], stacks: Counter[int]) -> int:
    return max(stacks[number] for number, base in bases.items() if base == Base(_RSP))


class _Rules(dict[tuple[int, int, int], tuple[Kind, bytes]]):
    """The meanings of rows, as operations of DWARF."""

    def __init__(self, bases: dict[int, Base], *, has_end: bool) -> None:
        super().__init__()
        self._bases, self._has_end = bases, has_end

    def __missing__(self, row: tuple[int, int, int]) -> tuple[Kind, bytes]:
        kind = self._kind(row[2])
        base = self._bases.get(row[2] & 15)
        if kind in (Kind.CALL, Kind.REGS, Kind.IRET) and base in (None, _PREV_SP):
            kind = Kind.UNKNOWN
        self[row] = kind, self._operations(kind, base, row) if base else b""
        return self[row]

    def _kind(self, word: int) -> Kind:
        if not self._has_end:
            number = word >> 8 & 7
            return _KINDS[number] if number < len(_KINDS) else Kind.UNKNOWN
        if not word & 15:
            return Kind.END if word >> 10 & 1 else Kind.UNKNOWN
        return _OLD_KINDS[word >> 8 & 3]

    def _operations(self, kind: Kind, base: Base, row: tuple[int, int, int]) -> bytes:
        offset, frame_offset, word = row
        if kind is Kind.CALL:
            frame = self._frame(word >> 4 & 15, frame_offset)
            if base.at or base.behind or offset < 0:
                place = _place(base, offset)
                return bytes((Cfa.DEF_CFA_EXPRESSION, len(place))) + place + frame
            return bytes((Cfa.DEF_CFA, base.register)) + uleb(offset) + frame
        if kind is Kind.REGS:
            saved = {number: 8 * at for at, number in enumerate(_SAVED)}
        else:
            offset, saved = offset - _IRET, {}
        stack = _place(base, offset, _IRET + _CFA_IN_IRET) + bytes((CfaOp.DEREF,))
        found = bytes((Cfa.DEF_CFA_EXPRESSION, len(stack))) + stack
        for number, at in {**saved, _RIP: _IRET}.items():
            found += _at(number, _place(base, offset, at))
        return found

    def _frame(self, number: int, offset: int) -> bytes:
        """Return the rule for the frame pointer."""
        base = self._bases.get(number)
        if base == _PREV_SP and offset <= 0 and not offset % 8:
            return bytes((Cfa.OFFSET | _RBP,)) + uleb(-offset // 8)
        if base == Base(_RBP):
            return _at(_RBP, _place(base, offset))
        return bytes((Cfa.SAME_VALUE, _RBP))


def _place(base: Base, offset: int, more: int = 0) -> bytes:
    """Return an expression for an address, which is more bytes behind a base."""
    if base.at:
        found = _place(Base(base.register), offset) + bytes((CfaOp.DEREF,))
    elif base.behind:
        found = bytes((CfaOp.BREG0 + base.register, 0, CfaOp.DEREF))
        more += offset
    else:
        return bytes((CfaOp.BREG0 + base.register,)) + sleb(offset + more)
    return found + bytes((CfaOp.PLUS_UCONST,)) + uleb(more) if more else found


def _at(number: int, place: bytes) -> bytes:
    """Return the rule for a register that was saved at a place."""
    return bytes((Cfa.EXPRESSION, number, len(place))) + place


class _Rows:
    """The rows of a piece of text."""

    def __init__(
        self, starts: list[int], found: list[tuple[Kind, bytes]], system_call: range
    ) -> None:
        """starts: of the rows, and the end of the last one."""
        self._starts, self._found, self._system_call = starts, found, system_call

    def entries(self) -> Iterator[bytes]:
        """Yield the entries (FDE): some rows of calls, or one of another kind."""
        begin = 0
        for other in (*self._others(), len(self._found)):
            for at in range(begin, other, _BLOCK):
                yield self._calls(at, min(at + _BLOCK, other))
            if other < len(self._found):
                kind, code = self._found[other]
                start, end = self._starts[other : other + 2]
                if start in self._system_call:
                    yield _entry(Kind.END, start, end, b"")
                elif kind is not Kind.UNKNOWN:
                    yield _entry(kind, start, end, code)
            begin = other + 1

    def _others(self) -> list[int]:
        """Return the rows that are of no calls.  What fills gaps belongs to calls."""
        starts, found, call, unknown = (
            self._starts,
            self._found,
            Kind.CALL,
            Kind.UNKNOWN,
        )
        others = []
        for at in [at for at, row in enumerate(found) if row[0] is not call]:
            if found[at][0] is unknown and starts[at + 1] - starts[at] < _FILLED:
                found[at] = _GOES_ON
            else:
                others.append(at)
        return others

    def _calls(self, begin: int, end: int) -> bytes:
        starts = self._starts
        steps = map(sub, starts[begin + 1 : end], starts[begin:end])
        rules = [rule for _, rule in self._found[begin:end]]
        more = chain.from_iterable(zip(map(advance, steps), rules[1:], strict=True))
        return _entry(Kind.CALL, starts[begin], starts[end], rules[0] + b"".join(more))


def _entry(kind: Kind, start: int, end: int, code: bytes) -> bytes:
    return entry(_PLACES[kind], start, end, code)


# what holds where an entry says nothing: a call has just been made
_CALLED = bytes((Cfa.DEF_CFA, _RSP, 8, Cfa.OFFSET | _RIP, 1))
_LAST = bytes((Cfa.DEF_CFA, _RSP, 8, Cfa.UNDEFINED, _RIP))
_HEADS = (
    head(_CALLED, _RIP),
    head(_CALLED, _RIP, signal=b"S"),
    head(_LAST, _RIP),
)
_PLACES = {
    Kind.CALL: 0,
    Kind.REGS: len(_HEADS[0]),
    Kind.IRET: len(_HEADS[0]),
    Kind.END: len(_HEADS[0]) + len(_HEADS[1]),
}
