# SPDX-License-Identifier: GPL-2.0-or-later
"""The variables that functions have on the stack, by DWARF's .debug_info.

Of a function whose frame is told by the address above its return address (CFA), these
are the variables that lie at one distance from there all the time.  What lives in
registers, or moves, is not told.  Versions 4 and 5, of 64-bit addresses.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from kpfs.base import elf

_ARRAY, _MEMBERS = 0x01, (0x0F, 0x10, 0x42)  # DW_TAG_*: these are pointers
_PARAMETER, _BLOCK, _SUBRANGE, _INLINED = 0x05, 0x0B, 0x21, 0x1D
_SUBPROGRAM, _VARIABLE = 0x2E, 0x34
_SIBLING, _LOCATION, _NAME, _SIZE, _LOW = 0x01, 0x02, 0x03, 0x0B, 0x11  # DW_AT_*
_HIGH, _UPPER, _ORIGIN, _COUNT, _FRAME, _TYPE = 0x12, 0x2F, 0x31, 0x37, 0x40, 0x49
_ADDRESS, _STRING, _STRP, _IMPLICIT = 0x01, 0x08, 0x0E, 0x21  # DW_FORM_*
_REFERENCE = 0x13  # DW_FORM_ref4
_SIZES = {
    0x01: 8, 0x05: 2, 0x06: 4, 0x07: 8, 0x0B: 1, 0x0C: 1, 0x0E: 4, 0x10: 4, 0x11: 1,
    0x12: 2, 0x13: 4, 0x14: 8, 0x17: 4, 0x19: 0, 0x1E: 16, 0x1F: 4, 0x20: 8, 0x21: 0,
    0x25: 1, 0x26: 2, 0x28: 4, 0x29: 1, 0x2A: 2, 0x2C: 4,
}  # fmt: skip
_UNSIGNED, _SIGNED = (0x0F, 0x15, 0x1A, 0x1B, 0x22, 0x23), 0x0D
_BLOCKS = {0x03: 2, 0x04: 4, 0x0A: 1}  # bytes of their lengths
_EXPRESSIONS = 0x09, 0x18  # a length of any size, and an expression
_OF_FRAME, _AT_CFA = 0x91, b"\x9c"  # DW_OP_fbreg, DW_OP_call_frame_cfa
_COMPILE_UNITS = 0, 1  # 0: version 4 has no kinds
_MOST = 16 << 20  # bytes of debug information that are read
_DEEPEST = 64


class StackVariable(NamedTuple):
    """A variable at a fixed place of its function's frame."""

    offset: int  # from the address above the return address
    size: int
    name: str


class Frame(NamedTuple):
    """A function, and its variables on the stack."""

    section: int  # index of the section, and the offset in it
    entry: int
    size: int
    name: str
    variables: list[StackVariable]


class _Shape(NamedTuple):
    """An abbreviation: what entries that begin with its number have."""

    tag: int
    has_children: bool
    fields: list[tuple[int, int, int]]  # attribute, form, and value if it is implicit
    size: int  # bytes of the fields; -1: it depends
    sibling: int  # where they say where the next entry is; -1: that is not told there


_Values = dict[int, int | bytes]


def frames(file: elf.ElfFile) -> list[Frame]:
    """Return the functions of a relocatable file that have variables on the stack.

    Empty if it has no debug information, more than is read, or none that is understood.
    """
    section = file.section(".debug_info")
    if section is None or section.size > _MOST:
        return []
    try:
        return list(_InfoReader(file, section).frames())
    except (struct.error, IndexError, ValueError, KeyError, RecursionError):
        return []


class _InfoReader:
    """A reader of .debug_info, at a position in it."""

    def __init__(self, file: elf.ElfFile, section: elf.Section) -> None:
        self._file = file
        self._data = file.contents(section)
        self._at = self._unit = 0
        self._shapes: dict[int, _Shape] = {}
        self._number = file.sections.index(section)

    # ---- values
    def _fixed(self, size: int) -> int:
        self._at += size
        return self._file.model.number(self._data[self._at - size : self._at])

    def _uleb(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def _form(self, form: int, implicit: int) -> int | bytes:
        if form == _IMPLICIT:
            return implicit
        size = _SIZES.get(form)
        if size is not None:
            at = self._at
            value = self._fixed(size)
            return self._linked.get(at, (0, value))[1] if form == _STRP else value
        if form in _EXPRESSIONS:
            size = self._uleb()
        elif form in _BLOCKS:
            size = self._fixed(_BLOCKS[form])
        elif form == _STRING:
            size = self._data.index(b"\0", self._at) + 1 - self._at
        elif form in _UNSIGNED or form == _SIGNED:
            return self._uleb()
        else:
            raise ValueError(f"form {form:#x}")
        self._at += size
        return self._data[self._at - size : self._at]

    @cached_property
    def _linked(self) -> dict[int, tuple[int, int]]:
        """Return section and offset that places in .debug_info stand for."""
        symbols = self._file.symbols()
        return {
            offset: (symbols[info >> 32].shndx, symbols[info >> 32].value + addend)
            for section in self._file.sections
            if section.type == elf.SHT_RELA and section.info == self._number
            for offset, info, addend in self._file.rows(section, elf.RELA_FORM)
        }

    # ---- entries
    def _read_shapes(self, at: int) -> dict[int, _Shape]:
        section = self._file.section(".debug_abbrev")
        assert section is not None
        before = self._data, self._at
        self._data, self._at = self._file.contents(section), at
        shapes = {}
        while number := self._uleb():
            tag, has_children = self._uleb(), bool(self._fixed(1))
            fields, size, sibling = [], 0, -1
            while True:
                name, form = self._uleb(), self._uleb()
                implicit = 0
                if form == _IMPLICIT:
                    implicit = self._uleb()
                if not form:
                    break
                fields.append((name, form, implicit))
                if name == _SIBLING and form == _REFERENCE:
                    sibling = size
                fixed = _SIZES.get(form)
                size = -1 if fixed is None or size < 0 else size + fixed
            shapes[number] = _Shape(tag, has_children, fields, size, sibling)
        self._data, self._at = before
        return shapes

    def _shape(self) -> _Shape | None:
        """Return what the next entry has; None: it ends a list of children."""
        number = self._uleb()
        return self._shapes[number] if number else None

    def _values(self, shape: _Shape) -> _Values:
        return {
            name: self._form(form, implicit) for name, form, implicit in shape.fields
        }

    def _skip(self, shape: _Shape) -> None:
        """Go behind an entry and its children."""
        if not shape.has_children and shape.size >= 0:
            self._at += shape.size
            return
        if shape.has_children and shape.sibling >= 0:
            self._at += shape.sibling
            self._go_to(self._fixed(4))
            return
        values = self._values(shape)
        self._skip_children(shape, values)

    def _go_to(self, offset: int) -> None:
        """Go on at a later entry of this unit."""
        if self._unit + offset < self._at:
            raise ValueError("a sibling stands before its entry")
        self._at = self._unit + offset

    def _skip_children(self, shape: _Shape, values: _Values) -> None:
        if not shape.has_children:
            return
        sibling = values.get(_SIBLING)
        if isinstance(sibling, int):
            self._go_to(sibling)
            return
        while child := self._shape():
            self._skip(child)

    def _entry(self, offset: int) -> tuple[_Shape, _Values]:
        """Return an entry of this unit; the position is behind its values then."""
        self._at = self._unit + offset
        shape = self._shape()
        if shape is None:
            raise ValueError("no entry")
        return shape, self._values(shape)

    # ---- units
    def frames(self) -> Iterator[Frame]:
        end = 0
        while end < len(self._data):
            self._at = self._unit = end
            length = self._fixed(4)
            end = self._at + length
            version, kind = self._fixed(2), 0
            if version == 5:
                kind = self._fixed(1)
                self._fixed(1)
                abbreviations = self._fixed(4)
            else:
                abbreviations = self._fixed(4)
                self._fixed(1)
            if version in (4, 5) and kind in _COMPILE_UNITS:
                abbreviations = self._linked.get(
                    self._at - (4 if version == 5 else 5), (0, abbreviations)
                )[1]
                self._shapes = self._read_shapes(abbreviations)
                yield from self._unit_frames(end)

    def _unit_frames(self, end: int) -> Iterator[Frame]:
        head = self._shape()
        if head is None or not head.has_children:
            return
        self._values(head)
        while self._at < end and (shape := self._shape()):
            if shape.tag != _SUBPROGRAM:
                self._skip(shape)
                continue
            begin = self._at
            values = self._values(shape)
            behind = self._at
            if _LOW in values and values.get(_FRAME) == _AT_CFA and shape.has_children:
                place = self._linked.get(begin + self._offset_of(shape, _LOW, begin))
                variables = list(self._variables(0))
                after = self._at
                size = values.get(_HIGH, 0)
                if place is not None and variables and isinstance(size, int):
                    name = self._name(values)
                    yield Frame(*place, size, name, sorted(set(variables)))
                self._at = after
            else:
                self._at = behind
                self._skip_children(shape, values)

    def _offset_of(self, shape: _Shape, wanted: int, begin: int) -> int:
        """Return where a field of an entry lies, behind the place where these begin."""
        after, self._at = self._at, begin
        for name, form, implicit in shape.fields:
            if name == wanted:
                break
            self._form(form, implicit)
        offset, self._at = self._at - begin, after
        return offset

    def _variables(self, depth: int) -> Iterator[StackVariable]:
        """Yield the variables of an entry's children, and go behind these."""
        while shape := self._shape():
            values = self._values(shape)
            if shape.tag in (_VARIABLE, _PARAMETER):
                after = self._at
                yield from self._variable(values)
                self._at = after
            if shape.tag in (_BLOCK, _INLINED) and shape.has_children:
                if depth > _DEEPEST:
                    raise ValueError("too deep")
                yield from self._variables(depth + 1)
            else:
                self._skip_children(shape, values)

    def _variable(self, values: _Values) -> Iterator[StackVariable]:
        place = values.get(_LOCATION)
        if not isinstance(place, bytes) or len(place) < 2 or place[0] != _OF_FRAME:
            return
        offset, used = _sleb(place[1:])
        if used != len(place) - 1:
            return
        name = self._name(values)
        kind = values.get(_TYPE)
        origin = values.get(_ORIGIN)
        if kind is None and isinstance(origin, int):
            kind = self._entry(origin)[1].get(_TYPE)
        size = self._size(kind, 0) if isinstance(kind, int) else 0
        if size:
            yield StackVariable(offset, size, name)

    def _name(self, values: _Values) -> str:
        origin = values.get(_ORIGIN)
        if _NAME not in values and isinstance(origin, int):
            values = self._entry(origin)[1]
        name = values.get(_NAME, b"\0")
        if isinstance(name, int):
            strings = self._file.section(".debug_str")
            assert strings is not None
            begin = strings.offset + name
            end = self._file.data.index(b"\0", begin)
            return self._file.data[begin:end].decode("latin-1")
        return name[:-1].decode("latin-1")

    def _size(self, offset: int, depth: int) -> int:
        """Return the size of a type; 0: it is not known."""
        shape, values = self._entry(offset)
        behind = self._at
        size, inner = values.get(_SIZE), values.get(_TYPE)
        if isinstance(size, int):
            return size
        if shape.tag in _MEMBERS:
            return 8
        if not isinstance(inner, int) or depth > _DEEPEST:
            return 0
        size = self._size(inner, depth + 1)
        if shape.tag == _ARRAY:
            self._at = behind
            size *= self._count(shape)
        return size

    def _count(self, shape: _Shape) -> int:
        """Return the number of an array's elements.  Its children come next."""
        count = 1
        while shape.has_children and (child := self._shape()):
            values = self._values(child)
            if child.tag == _SUBRANGE:
                upper, number = values.get(_UPPER), values.get(_COUNT)
                if isinstance(upper, int):
                    number = upper + 1
                count *= number if isinstance(number, int) else 0
            self._skip_children(child, values)
        return count


def _sleb(data: bytes) -> tuple[int, int]:
    """Return a signed number, and how many bytes it has."""
    value = shift = used = 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        used += 1
        if byte < 0x80:
            break
    return value - (1 << shift) if value >> (shift - 1) & 1 else value, used
