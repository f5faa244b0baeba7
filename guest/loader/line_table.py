# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the source line of each instruction, by DWARF's .debug_line.

Versions 2 to 5.  Each unit of compilation has a table of
directories, one of files, and a program for a small machine, whose registers are an
address, a file and a line; its operations move these and emit rows.  A row holds up to
the next row of its sequence.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kpfs.base import elf
from kpfs.base.errors import KernelError

# operations: DW_LNS_*, and behind 0 those of DW_LNE_*
_COPY, _ADVANCE_PC, _ADVANCE_LINE, _SET_FILE = 1, 2, 3, 4
_CONST_ADD_PC, _FIXED_ADVANCE_PC = 8, 9
_END_SEQUENCE, _SET_ADDRESS = 1, 2
# what a row of a table has: DW_LNCT_*
_PATH, _DIRECTORY = 1, 2
# how a value is encoded: DW_FORM_*
_FIXED_FORMS = {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x1E: 16}  # data1 to data16
_BLOCK, _STRING, _STRP, _UDATA, _LINE_STRP = 0x09, 0x08, 0x0E, 0x0F, 0x1F
_LONG = 0xFFFF_FFFF  # before a length of 64 bits


class LineSpan(NamedTuple):
    """Adjacent instructions that come from one line: [start, end)."""

    start: int
    end: int
    file: str  # absolute, or as the compiler was given it
    line: int


def spans(file: elf.ElfFile, places: Mapping[int, int]) -> list[LineSpan]:
    """Return the spans of a file by address; none if it lacks line numbers.

    places: the addresses of a relocatable file's sections, by their indices.
    ENOEXEC: its debug information is damaged, or of an unknown kind.
    """
    try:
        return sorted(_LineReader(file, places).spans())
    except (struct.error, IndexError, ValueError) as exc:
        raise KernelError(errno.ENOEXEC, f"damaged .debug_line: {exc!r}") from None


class _LineReader:
    """A reader of .debug_line, at a position in it."""

    def __init__(self, file: elf.ElfFile, places: Mapping[int, int]) -> None:
        self._file = file
        names = (".debug_line", ".debug_line_str", ".debug_str")
        contents = _linked(file, places) if file.type == elf.ET_REL else {}
        self._data, self._line_str, self._str = (
            contents.get(name) or _contents(file, name) for name in names
        )
        self._at = 0

    # ---- values
    def _fixed(self, size: int) -> int:
        self._at += size
        if self._at > len(self._data):
            raise ValueError("cut short")
        return self._file.model.number(self._data[self._at - size : self._at])

    def _uleb(self) -> int:
        value = shift = 0
        while True:
            byte = self._fixed(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    def _sleb(self) -> int:
        begin = self._at
        value = self._uleb()
        bits = 7 * (self._at - begin)
        return value - (1 << bits) if value >> (bits - 1) & 1 else value

    def _string(self) -> str:
        begin = self._at
        end = self._data.index(b"\0", begin)
        self._at = end + 1
        return os.fsdecode(bytes(self._data[begin:end]))

    def _form(self, form: int, width: int) -> int | str:
        if form in _FIXED_FORMS:
            return self._fixed(_FIXED_FORMS[form])
        if form == _UDATA:
            return self._uleb()
        if form == _STRING:
            return self._string()
        if form in (_STRP, _LINE_STRP):
            strings = self._str if form == _STRP else self._line_str
            at = self._fixed(width)
            return os.fsdecode(bytes(strings[at : strings.index(b"\0", at)]))
        if form == _BLOCK:
            self._at += self._uleb()
            return 0
        raise ValueError(f"form {form:#x}")

    # ---- units
    def spans(self) -> Iterator[LineSpan]:
        while self._at < len(self._data):
            yield from self._unit()

    def _unit(self) -> Iterator[LineSpan]:
        length, width = self._fixed(4), 4
        if length == _LONG:
            length, width = self._fixed(8), 8
        end = self._at + length
        version = self._fixed(2)
        if not 2 <= version <= 5:
            raise ValueError(f"version {version}")
        if version == 5:
            self._fixed(2)  # sizes of addresses and of selectors
        program = self._fixed(width)
        program += self._at
        unit_of_code = self._fixed(1)
        if version >= 4:
            self._fixed(1)  # operations in an instruction
        self._fixed(1)  # whether rows are statements at first
        line_base = self._fixed(1)
        line_base -= (line_base & 0x80) << 1
        line_range, first_special = self._fixed(1), self._fixed(1)
        lengths = [self._fixed(1) for _ in range(1, first_special)]
        files = self._files_of_5(width) if version == 5 else self._files_of_4()
        self._at = program
        machine = _Machine(unit_of_code, line_base, line_range, first_special, lengths)
        yield from self._run(machine, end, files)

    def _files_of_5(self, width: int) -> dict[int, str]:
        directories = [str(row[_PATH]) for row in self._table(width)]
        files = {}
        for number, row in enumerate(self._table(width)):
            folder = directories[int(row.get(_DIRECTORY, 0))]
            folder = os.path.join(directories[0], folder)  # that of the compiler
            files[number] = os.path.normpath(os.path.join(folder, str(row[_PATH])))
        return files

    def _table(self, width: int) -> list[dict[int, int | str]]:
        columns = [(self._uleb(), self._uleb()) for _ in range(self._fixed(1))]
        rows = range(self._uleb())
        return [{k: self._form(form, width) for k, form in columns} for _ in rows]

    def _files_of_4(self) -> dict[int, str]:
        directories = [""]  # that of the compiler stands elsewhere
        while folder := self._string():
            directories.append(folder)
        files: dict[int, str] = {}
        while name := self._string():
            folder = directories[self._uleb()]
            self._uleb(), self._uleb()  # its time and its size
            files[len(files) + 1] = os.path.normpath(os.path.join(folder, name))
        return files

    def _run(
        self, m: _Machine, end: int, files: Mapping[int, str]
    ) -> Iterator[LineSpan]:
        """Run a unit's program."""
        now = _Registers()
        row: tuple[int, int, int] | None = None
        while self._at < end:
            emits, ends = self._step(m, now)
            if emits or ends:
                if row is not None and row[0] < now.address and row[2]:
                    yield LineSpan(row[0], now.address, files[row[1]], row[2])
                row = None if ends else (now.address, now.file, now.line)
            if ends:
                now = _Registers()

    def _step(self, m: _Machine, now: _Registers) -> tuple[bool, bool]:
        """Do one operation; return whether it emits a row, and whether the last one."""
        operation = self._fixed(1)
        if operation >= m.first_special:
            advance, line = divmod(operation - m.first_special, m.line_range)
            now.address += advance * m.unit_of_code
            now.line += m.line_base + line
            return True, False
        if operation == 0:
            size = self._uleb()
            behind = self._at + size
            extended = self._fixed(1)
            if extended == _SET_ADDRESS:
                now.address = self._fixed(size - 1)
            self._at = behind
            return False, extended == _END_SEQUENCE
        if operation == _ADVANCE_PC:
            now.address += self._uleb() * m.unit_of_code
        elif operation == _ADVANCE_LINE:
            now.line += self._sleb()
        elif operation == _SET_FILE:
            now.file = self._uleb()
        elif operation == _CONST_ADD_PC:
            now.address += (255 - m.first_special) // m.line_range * m.unit_of_code
        elif operation == _FIXED_ADVANCE_PC:
            now.address += self._fixed(2)
        else:
            for _ in range(m.lengths[operation - 1]):
                self._uleb()
        return operation == _COPY, False


class _Registers:
    """The registers of the machine that matter here."""

    def __init__(self) -> None:
        self.address, self.file, self.line = 0, 1, 1


class _Machine(NamedTuple):
    """The values in the head of a unit that its program needs."""

    unit_of_code: int  # bytes
    line_base: int
    line_range: int
    first_special: int
    lengths: list[int]  # arguments of each operation


def _contents(file: elf.ElfFile, name: str) -> bytes:
    section = file.section(name)
    return b"" if section is None else file.contents(section)


def _linked(file: elf.ElfFile, places: Mapping[int, int]) -> dict[str, bytearray]:
    """Return .debug_line by its name, linked; sections without a place are at 0."""
    index = next(
        (i for i, s in enumerate(file.sections) if s.name == ".debug_line"), None
    )
    if index is None:
        return {}
    all_places = {i: places.get(i, 0) for i in range(len(file.sections))}
    images, _ = elf.relocate(file, all_places, lambda _name: 0, (index,))
    return {".debug_line": images[index]}
