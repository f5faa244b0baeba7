# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes .debug_frame, and what the text of each architecture has to tell for that.

Document: DWARF 5 section 6.4.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import ClassVar, NamedTuple

from kpfs.base.cfi import Cfa, CfaOp
from kpfs.base.data_model import LITTLE_64, DataModel
from kpfs.base.units import WORD

_ENTRY = "IILL"  # length, place of the CIE, begin and size of the text
_MOST_SHORT = 0x40  # registers of the short form
Row = tuple[int, bytes]  # the number of a unit of text, what holds from there on
Span = tuple[int, int]  # text, [start, end)
Spans = Sequence[Span]
# text by its first symbol and the one behind it, "" for that of one symbol
Named = Sequence[tuple[str, str]]
THREADS: Named = tuple(
    (name, "")
    for name in (
        *("ret_from_fork", "ret_from_fork_kernel_asm", "ret_from_fork_user_asm"),
        *("ret_from_fork_scv", "ret_from_kernel_thread", "start_kernel_thread"),
        "ret_from_kernel_user_thread",
    )
)


def head(
    code: bytes,
    register: int,
    *,
    step: int = 1,
    signal: bytes = b"",
    model: DataModel = LITTLE_64,
) -> bytes:
    """Return a CIE, where longs are counted downwards.

    register: that of the return address.  step: bytes by which the text is counted.
    signal: S if places of the caller are no return addresses.
    """
    body = b"\xff\xff\xff\xff\1" + signal + bytes((0, step)) + sleb(-model.long)
    body += bytes((register,)) + code
    body += bytes(-(len(body) + 4) % 8)
    return model.raw(len(body), 4) + body


def entry(
    place: int, start: int, end: int, code: bytes, model: DataModel = LITTLE_64
) -> bytes:
    """Return an FDE.  place: that of its CIE in the section."""
    code += bytes(-(len(code) + 4) % 8)  # DW_CFA_nop
    packed = model.struct(_ENTRY)
    size = packed.size - 4 + len(code)
    return packed.pack(size, place, start, end - start) + code


def uleb(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


def sleb(value: int) -> bytes:
    found = bytearray()
    while not -0x40 <= value < 0x40:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value & 0x7F))


@cache
def advance(step: int, model: DataModel = LITTLE_64) -> bytes:
    """Return that what follows holds so many units of text further on."""
    if step < Cfa.ADVANCE_LOC:
        return bytes((Cfa.ADVANCE_LOC | step,))
    if step < 1 << 8:
        return bytes((Cfa.ADVANCE_LOC1, step))
    return bytes((Cfa.ADVANCE_LOC4,)) + model.raw(step, 4)


@cache
def cfa(register: int, offset: int) -> bytes:
    """Return that the caller's stack is so far above a register."""
    return bytes((Cfa.DEF_CFA, register)) + uleb(offset)


@cache
def kept(register: int, above: int, long: int = WORD) -> bytes:
    """Return where a register is saved, so many bytes below the caller's stack."""
    if register < _MOST_SHORT and above >= 0:
        return bytes((Cfa.OFFSET | register,)) + uleb(above // long)
    return bytes((Cfa.OFFSET_EXTENDED_SF, register)) + sleb(above // long)


def same(register: int) -> bytes:
    """Return that a register is that of the caller."""
    return bytes((Cfa.SAME_VALUE, register))


def undefined(register: int) -> bytes:
    """Return that a register is not known: of the return address, a stack ends."""
    return bytes((Cfa.UNDEFINED, register))


def cfa_behind(register: int, offset: int, more: int = 0) -> bytes:
    """Return that the word at a register + offset tells the caller's stack.

    more: bytes by which that is above the word.
    """
    place = bytes((CfaOp.BREG0 + register,)) + sleb(offset) + bytes((CfaOp.DEREF,))
    if more:
        place += bytes((CfaOp.PLUS_UCONST,)) + uleb(more)
    return bytes((Cfa.DEF_CFA_EXPRESSION, len(place))) + place


def interrupted(
    base: int, offset: int, stack: bytes, places: Mapping[int, int]
) -> bytes:
    """Return the rules by which registers are those of a struct pt_regs.

    It is at the register base + offset.  stack: the rule for the caller's stack.
    places: in it, by registers.
    """
    code = stack
    for number, at in places.items():
        place = bytes((CfaOp.BREG0 + base,)) + sleb(offset + at)
        code += bytes((Cfa.EXPRESSION, number, len(place))) + place
    return code


class FunctionFrames(NamedTuple):
    """A function, and what holds in it.  Begin and end are numbers of units."""

    begin: int
    end: int
    rows: Iterable[Row]


class Code(ABC):
    """The instructions of an architecture.  Text is counted by its smallest ones."""

    model: ClassVar[DataModel] = LITTLE_64
    unit: ClassVar[int]  # bytes
    # numbers of DWARF: return address, stack pointer, where the text is that was
    # interrupted; registers of the caller that functions save
    back: ClassVar[int]
    stack: ClassVar[int]
    counter: ClassVar[int]
    saved: ClassVar[Sequence[int]]
    knows_leaves: ClassVar[bool] = False  # a function without rows has no frame
    lasts: ClassVar[Named] = THREADS  # where stacks end
    interrupts: ClassVar[Named] = ()  # text that has saved a struct pt_regs

    @abstractmethod
    def functions(self, text: bytes, starts: Sequence[int]) -> Iterator[FunctionFrames]:
        """Yield those of which something is known.

        starts: where functions begin, in order.
        """

    @abstractmethod
    def interrupted(self, record: int, text: bytes) -> bytes:
        """Return the rules for the text of interrupts, b"" if they are unknown.

        record: the place of a frame record in struct pt_regs, or 0.
        """

    def cfa(self, offset: int) -> bytes:
        """Return that the caller's stack is so far above the stack pointer."""
        return cfa(self.stack, offset)

    @cached_property
    def begin(self) -> bytes:
        """Return what holds where a function begins."""
        return self.cfa(0) + self.unsaved

    @cached_property
    def unsaved(self) -> bytes:
        """Return that registers are those of the caller."""
        return b"".join(map(same, self.saved))

    def heads(self) -> Sequence[bytes]:
        """Return what holds at begins, at ends of stacks, and at interrupts."""
        begin = self.begin
        last = self.cfa(0) + undefined(self.back)
        return (
            head(begin, self.back, step=self.unit, model=self.model),
            head(last, self.back, step=self.unit, model=self.model),
            head(begin, self.counter, step=self.unit, signal=b"S", model=self.model),
        )


def debug_frame(
    code: Code,
    start: int,
    text: bytes,
    functions: Sequence[int],
    lasts: Spans = (),
    interrupts: Spans = (),
    record: int = 0,
) -> bytes:
    """Return .debug_frame for text at an address.

    functions: where they begin, in order.  lasts, interrupts: see Code.  record: the
    place of a frame record in struct pt_regs, if there is one.
    """
    unit, heads = code.unit, code.heads()
    places = [0, len(heads[0]), len(heads[0]) + len(heads[1])]
    pieces, starts = [*heads], [(at - start) // unit for at in functions]
    special = sorted((*lasts, *interrupts))
    for begin, end, rows in code.functions(text, starts):
        first, behind = start + unit * begin, start + unit * end
        if any(low <= first < high for low, high in special):
            continue
        made = b"".join(_placed(code, begin, rows))
        if made or code.knows_leaves:
            pieces.append(entry(places[0], first, behind, made, code.model))
    for low, high in lasts:
        pieces.append(entry(places[1], low, high, b"", code.model))
    for low, high in interrupts:
        rules = code.interrupted(record, text[low - start : high - start])
        if rules:
            pieces.append(entry(places[2], low, high, rules, code.model))
    return b"".join(pieces)


def _placed(code: Code, begin: int, rows: Iterable[Row]) -> Iterator[bytes]:
    """Yield operations, and between them those that go on in the text."""
    at = begin
    for number, row in rows:
        step, at = number - at, number
        if step:
            yield advance(step, code.model)
        yield row
