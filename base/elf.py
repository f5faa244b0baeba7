# SPDX-License-Identifier: GPL-2.0-or-later
"""ELF files: segments, sections, symbols, relocations; struct alone.

Relocations are those of x86-64, and those of line numbers of other architectures. What
follows the data model of a file is read and written for 32 bits, too.

Executables (the kernel) are read by segment, relocatable objects (the runtime image,
modules) are placed section by section and then linked with relocate().
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from kpfs.base.data_model import BIG_64, LITTLE_32, LITTLE_64, DataModel
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import MASK64
from kpfs.base.typed import Any, NamedTuple, cast
from kpfs.base.units import WORD

ET_REL = 1
PT_LOAD = 1
SHT_SYMTAB = 2
SHT_RELA = 4
SHT_NOBITS = 8
SHT_REL = 9
SHF_WRITE = 1
SHF_ALLOC = 2
SHF_EXECINSTR = 4
SHN_UNDEF = 0
SHN_LORESERVE = 0xFF00
SHN_ABS = 0xFFF1
SHN_COMMON = 0xFFF2
STB_GLOBAL = 1
STB_WEAK = 2
STT_OBJECT = 1
STT_FUNC = 2
STT_SECTION = 3
STT_FILE = 4

R_X86_64_NONE = 0
R_X86_64_64 = 1
R_X86_64_PC32 = 2
R_X86_64_PLT32 = 4
R_X86_64_32 = 10
R_X86_64_32S = 11
R_X86_64_PC64 = 24

EM_PPC64, EM_S390, EM_ARM, EM_X86_64, EM_AARCH64, EM_RISCV = 21, 22, 40, 62, 183, 243
EM_386, EM_MIPS = 3, 8
ANY_MACHINE, _SMALL = 0, frozenset((EM_ARM, EM_386))
MACHINES = {
    EM_X86_64: "x86-64", EM_AARCH64: "arm64", EM_386: "i386", EM_MIPS: "mips",
    15: "parisc", 20: "ppc", EM_PPC64: "ppc64", EM_S390: "s390x", EM_ARM: "arm",
    43: "sparc64", 50: "ia64",
    EM_RISCV: "riscv64", 258: "loongarch",
}  # fmt: skip
_B, _H, _I, _Q = "BHIQ"
_SET, _ADD, _SUB = "set", "add", "sub"
# relocations of words by machine and kind
_WORDS = {
    EM_S390: {4: (_I, _SET), 22: (_Q, _SET)},
    EM_PPC64: {1: (_I, _SET), 38: (_Q, _SET)},
    EM_AARCH64: {257: (_Q, _SET), 258: (_I, _SET)},
    EM_RISCV: {
        1: (_I, _SET),
        2: (_Q, _SET),
        **{33 + n: (form, _ADD) for n, form in enumerate((_B, _H, _I, _Q))},
        **{37 + n: (form, _SUB) for n, form in enumerate((_B, _H, _I, _Q))},
    },
    # those of 32 bits have the addend where the word is to be
    EM_ARM: {2: (_I, _ADD)},
    EM_386: {1: (_I, _ADD)},
    EM_MIPS: {2: (_I, _SET), 18: (_Q, _SET)},
}
_CLASS, _ORDER = 4, 5  # EI_CLASS, EI_DATA
_NAME_MAX = 4096  # bytes of a section's name
EHDR_FORM, PHDR_FORM, PHDR_FORM_32 = "16sHHI3LI6H", "2I6Q", "8I"
SHDR_FORM, RELA_FORM, _REL_FORM = "2I4L2I2L", "QQq", "II"
SYM_FORM, SYM_FORM_32 = "IBBHQQ", "IIIBBH"
EHDR, PHDR = LITTLE_64.struct(EHDR_FORM), LITTLE_64.struct(PHDR_FORM)
SHDR, SYM = LITTLE_64.struct(SHDR_FORM), LITTLE_64.struct(SYM_FORM)
RELA = LITTLE_64.struct(RELA_FORM)
MODELS = {(2, 1): LITTLE_64, (2, 2): BIG_64, (1, 1): LITTLE_32}  # by class and order


class Segment(NamedTuple):
    """One PT_LOAD: which bytes of the file stand where in memory."""

    flags: int
    offset: int
    vaddr: int
    paddr: int
    filesz: int
    memsz: int


class Section(NamedTuple):
    """One section header, its name resolved."""

    name: str
    type: int
    flags: int
    addr: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entsize: int


class ElfSymbol(NamedTuple):
    """One symbol, as it stands in the symbol table."""

    name: str
    value: int
    size: int
    bind: int
    kind: int  # STT_*
    shndx: int


class ElfFile:
    """An ELF file in memory, whose parts are cut out when they are asked for."""

    def __init__(self, data: bytes, machine: int = EM_X86_64) -> None:
        """Raises KernelError(ENOEXEC) for what is no ELF file of this machine.

        machine: ANY_MACHINE is for headers and sections alone.
        """
        self.data = data
        self._machine = machine
        try:
            self._read_headers()
        except (
            *(struct.error, IndexError, KeyError, ValueError, OverflowError),
        ) as exc:
            raise KernelError(errno.ENOEXEC, f"damaged ELF file: {exc}") from exc

    def _read_headers(self) -> None:
        data = self.data
        model = self.model = MODELS[data[_CLASS], data[_ORDER]]
        head = model.struct(EHDR_FORM).unpack_from(data, 0)
        ident, self.type, machine = head[0], head[1], head[2]
        self.machine: int = machine
        meant = self._machine in (machine, ANY_MACHINE)
        bits = 32 if self._machine in _SMALL else 64
        if self._machine != ANY_MACHINE:
            meant = meant and model.long * 8 == bits
        if ident[:4] != b"\x7fELF" or not meant:
            name = MACHINES.get(self._machine, "any machine")
            raise KernelError(errno.ENOEXEC, f"not an ELF{bits} file of {name}")
        self.entry: int = head[4]
        phoff, shoff = head[5], head[6]
        phnum, shnum, shstrndx = head[10], head[12], head[13]
        segment = model.struct(PHDR_FORM if model.long == WORD else PHDR_FORM_32)
        places = range(phoff, phoff + phnum * segment.size, segment.size)
        self.segments = [
            Segment(*(p[1:7] if model.long == WORD else (p[6], *p[1:6])))
            for p in (segment.unpack_from(data, at) for at in places)
            if p[0] == PT_LOAD
        ]
        section = model.struct(SHDR_FORM)
        places = range(shoff, shoff + shnum * section.size, section.size)
        rows = [section.unpack_from(data, at) for at in places]
        names = rows[shstrndx][4] if rows else 0
        self.sections = [Section(self._cstring(names + r[0]), *r[1:]) for r in rows]

    def _cstring(self, offset: int) -> str:
        end = self.data.index(b"\0", offset, offset + _NAME_MAX)
        return self.data[offset:end].decode("latin-1")

    def section(self, name: str) -> Section | None:
        """Return the first section of that name."""
        return next((s for s in self.sections if s.name == name), None)

    def contents(self, section: Section) -> bytes:
        """Return the bytes of a section; zeros for .bss."""
        if section.type == SHT_NOBITS:
            return bytes(section.size)
        data = self.data[section.offset : section.offset + section.size]
        if len(data) != section.size:
            raise KernelError(errno.ENOEXEC, f"section {section.name} is cut short")
        return data

    def _symbol_table(self) -> Section | None:
        return next((s for s in self.sections if s.type == SHT_SYMTAB), None)

    def rows(self, section: Section, form: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a table, unpacked."""
        return self.model.struct(form).iter_unpack(self.contents(section))

    def addresses(self) -> dict[str, int]:
        """Return values of the global symbols by name, more quickly than symbols()."""
        table = self._symbol_table()
        if table is None:
            return {}
        names = self.contents(self.sections[table.link]).decode("latin-1")
        end, rows = names.index, symbol_rows(self.model, self.contents(table))
        return {
            names[name : end("\0", name)]: value
            for name, info, _other, shndx, value, _size in rows
            if shndx and info >> 4 == STB_GLOBAL
        }

    def symbols(self) -> list[ElfSymbol]:
        """Return the symbol table, the null symbol first; empty if stripped."""
        table = self._symbol_table()
        if table is None:
            return []
        names = self.contents(self.sections[table.link]).decode("latin-1")
        end, rows = names.index, symbol_rows(self.model, self.contents(table))
        return [
            ElfSymbol(names[at : end("\0", at)], value, size, info >> 4, info & 15, n)
            for at, info, _other, n, value, size in rows
        ]


_SymbolRow = tuple[int, int, int, int, int, int]


def symbol_rows(model: DataModel, table: bytes) -> Iterable[_SymbolRow]:
    """Return rows of a symbol table: name, info, other, section, value and size."""
    if model.long == WORD:
        return cast("Iterable[_SymbolRow]", model.struct(SYM_FORM).iter_unpack(table))
    small = model.struct(SYM_FORM_32).iter_unpack(table)
    return (
        (name, info, other, section, value, size)
        for name, value, size, info, other, section in small
    )


def symbol_size(model: DataModel) -> int:
    """Return the size of a row of a symbol table."""
    return model.struct(SYM_FORM if model.long == WORD else SYM_FORM_32).size


def symbol_info(model: DataModel) -> int:
    """Return where a row of a symbol table has its info."""
    return 4 if model.long == WORD else 12


def segment_size(model: DataModel) -> int:
    """Return the size of a program header in a file."""
    return model.struct(PHDR_FORM if model.long == WORD else PHDR_FORM_32).size


def pack_segment(
    model: DataModel,
    kind: int,
    flags: int,
    offset: int,
    virtual: int,
    physical: int,
    size: int,
    align: int,
) -> bytes:
    """Return a program header of a part that is as large in the file as in memory."""
    places = offset, virtual, physical, size, size
    if model.long == WORD:
        return model.struct(PHDR_FORM).pack(kind, flags, *places, align)
    return model.struct(PHDR_FORM_32).pack(kind, *places, flags, align)


def pack_symbol(
    model: DataModel, name: int, info: int, section: int, value: int, size: int
) -> bytes:
    """Return a row of a symbol table."""
    if model.long == WORD:
        return model.struct(SYM_FORM).pack(name, info, 0, section, value, size)
    return model.struct(SYM_FORM_32).pack(name, value, size, info, 0, section)


def relocate(
    elf: ElfFile,
    places: Mapping[int, int],
    resolve: Callable[[str], int | None],
    linked: Iterable[int] | None = None,
) -> tuple[dict[int, bytearray], dict[str, int]]:
    """Link a relocatable file whose sections were given addresses.

    ``places`` maps a section's index to its address; ``resolve`` finds what the file
    does not define itself (0 for a missing weak symbol).  Returns the linked bytes of
    each section by its index (of those in ``linked``, by default all), and the
    addresses of the file's own named symbols.
    ENOENT: a symbol is nowhere; ENOEXEC: a relocation is unknown or does not fit.
    """
    wanted = places if linked is None else linked
    images = {i: bytearray(elf.contents(elf.sections[i])) for i in wanted}
    symbols = elf.symbols()
    values: list[int | None] = []
    own: dict[str, int] = {}
    for sym in symbols:
        value = _symbol_value(sym, places, resolve)
        values.append(value)
        if value is not None and sym.name and 0 < sym.shndx < SHN_LORESERVE:
            own[sym.name] = value
    wanted_type = SHT_REL if elf.machine in _SMALL else SHT_RELA
    for section in elf.sections:
        if section.type == wanted_type and section.info in images:
            _apply(elf, section, places, images[section.info], symbols, values)
    return images, own


def _symbol_value(
    sym: ElfSymbol, places: Mapping[int, int], resolve: Callable[[str], int | None]
) -> int | None:
    if sym.shndx == SHN_ABS:
        return sym.value
    if sym.shndx == SHN_COMMON:
        raise KernelError(errno.ENOEXEC, f"common symbol {sym.name}")
    if sym.shndx != SHN_UNDEF:
        base = places.get(sym.shndx)
        return None if base is None else (base + sym.value) & MASK64
    if not sym.name:
        return 0
    found = resolve(sym.name)
    return 0 if found is None and sym.bind == STB_WEAK else found


def _apply(
    elf: ElfFile,
    section: Section,
    places: Mapping[int, int],
    image: bytearray,
    symbols: Sequence[ElfSymbol],
    values: Sequence[int | None],
) -> None:
    base = places[section.info]
    for offset, kind, index, addend in _relocations(elf, section):
        value = values[index]
        if value is None:
            raise KernelError(errno.ENOENT, f"unknown symbol {symbols[index].name}")
        try:
            if elf.machine == EM_X86_64:
                _relocate_one(image, offset, kind, value + addend, base + offset)
            else:
                _relocate_word(elf, image, offset, kind, value + addend)
        except struct.error:
            why = f"relocation {kind} against {symbols[index].name} does not fit"
            raise KernelError(errno.ENOEXEC, why) from None


def _relocations(elf: ElfFile, section: Section) -> Iterator[tuple[int, int, int, int]]:
    """Yield the offset, kind, symbol and addend of each row."""
    if section.type == SHT_REL:
        for offset, info in elf.rows(section, _REL_FORM):
            yield offset, info & 0xFF, info >> 8, 0
        return
    for offset, info, addend in elf.rows(section, RELA_FORM):
        kind, index = info & 0xFFFF_FFFF, info >> 32
        if elf.machine == EM_MIPS:  # the symbol comes first, then up to three kinds
            kind, index = index >> 24, kind
        yield offset, kind, index, addend


def _relocate_one(
    image: bytearray, offset: int, kind: int, value: int, place: int
) -> None:
    if kind == R_X86_64_64:
        LITTLE_64.struct("Q").pack_into(image, offset, value & MASK64)
    elif kind in (R_X86_64_PC32, R_X86_64_PLT32):
        LITTLE_64.struct("i").pack_into(image, offset, _signed(value - place))
    elif kind == R_X86_64_32:
        LITTLE_64.struct("I").pack_into(image, offset, value & MASK64)
    elif kind == R_X86_64_32S:
        LITTLE_64.struct("i").pack_into(image, offset, _signed(value))
    elif kind == R_X86_64_PC64:
        LITTLE_64.struct("q").pack_into(image, offset, _signed(value - place))
    elif kind != R_X86_64_NONE:
        raise KernelError(errno.ENOEXEC, f"unknown relocation {kind}")


def _relocate_word(
    elf: ElfFile, image: bytearray, offset: int, kind: int, value: int
) -> None:
    """Relocate a word of line numbers."""
    if kind not in _WORDS.get(elf.machine, {}):
        raise KernelError(errno.ENOEXEC, f"unknown relocation {kind}")
    letter, what = _WORDS[elf.machine][kind]
    form = elf.model.struct(letter)
    (old,) = form.unpack_from(image, offset)
    new = {_SET: value, _ADD: old + value, _SUB: old - value}[what]
    form.pack_into(image, offset, new & (1 << 8 * form.size) - 1)


def _signed(value: int) -> int:
    """Return the low 64 bits as a signed number."""
    value &= MASK64
    return value - (1 << 64) if value >> 63 else value
