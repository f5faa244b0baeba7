# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks the tables of a module: symbols, names, relocations, lists.

Linux believes them, and a damaged module may break it.  Here they are looked at before
anything is placed, so that such a file is refused like one with damaged headers.  Rows
of a list are counted as Linux does: part of a row at the end is none.
"""

from __future__ import annotations

from collections.abc import Iterator

from kpfs.base import abi, elf
from kpfs.base.units import LARGE_PAGE

SECTION_MAX = 64 << 20  # bytes: as much as there is for all modules
EXPORT = "___ksymtab+"  # and the name of the symbol
_RELOCATED = {  # bytes that a relocation changes
    elf.R_X86_64_64: 8,
    elf.R_X86_64_PC32: 4,
    elf.R_X86_64_PLT32: 4,
    elf.R_X86_64_32: 4,
    elf.R_X86_64_32S: 4,
    elf.R_X86_64_PC64: 8,
}
_ROWS = {  # bytes of a row of the lists that a module brings with it
    "__param": abi.KernelParam.SIZE,
    "__ex_table": abi.ExceptionTableEntry.SIZE,
    "__bug_table": abi.BugEntry.SIZE,
    "__jump_table": abi.JumpEntry.STRUCT.size,
    ".static_call_sites": abi.StaticCallSite.STRUCT.size,
    "_ftrace_events": abi.TraceEventCall.STRUCT.size,
    "_ftrace_eval_map": abi.TraceEvalMap.STRUCT.size,
    "__mcount_loc": 8,
    "_kprobe_blacklist": 8,
}


def whole_rows(name: str, contents: bytes) -> bytes:
    """Return a section without what is left behind the last whole row of its list.

    Kernel: section_objs()
    """
    return contents[: len(contents) - len(contents) % _ROWS.get(name, 1)]


def damage(image: elf.ElfFile) -> str:
    """Return what is wrong with a module's tables, "" if nothing is."""
    return next((what for check in _CHECKS for what in check(image)), "")


def _sections(image: elf.ElfFile) -> Iterator[str]:
    for index, section in enumerate(image.sections):
        if not section.flags & elf.SHF_ALLOC:
            continue
        align = section.align
        if align & (align - 1) or align > LARGE_PAGE:
            yield f"section {index} has an alignment of {align:#x}"
        if section.size > SECTION_MAX:
            yield f"section {index} has a size of {section.size:#x}"
        if section.name.startswith(EXPORT) and section.size % 24:
            yield f"{section.name} has a size of {section.size:#x}"


def _symbols(image: elf.ElfFile) -> Iterator[str]:
    index = next(i for i, s in enumerate(image.sections) if s.type == elf.SHT_SYMTAB)
    table = image.sections[index]
    if table.size % elf.SYM.size:
        yield f"the symbol table has a size of {table.size:#x}"
    strings = image.contents(image.sections[table.link])
    if strings[-1:] != b"\0":
        yield "the names of symbols have no end"
    for number, row in enumerate(elf.SYM.iter_unpack(image.contents(table))):
        if row[0] >= len(strings):
            yield f"symbol {number} has its name at {row[0]:#x}"


def _relocations(image: elf.ElfFile) -> Iterator[str]:
    sections = image.sections
    nr_symbols = next(s.size for s in sections if s.type == elf.SHT_SYMTAB)
    nr_symbols //= elf.SYM.size
    for index, section in enumerate(sections):
        if section.type != elf.SHT_RELA or not 0 <= section.info < len(sections):
            continue
        target = sections[section.info]
        if not target.flags & elf.SHF_ALLOC:
            continue
        if section.size % elf.RELA.size:
            yield f"section {index} has a size of {section.size:#x}"
        for offset, info, _ in elf.RELA.iter_unpack(image.contents(section)):
            if info >> 32 >= nr_symbols:
                yield f"section {index} relocates against symbol {info >> 32}"
            if offset + _RELOCATED.get(info & 0xFFFF_FFFF, 0) > target.size:
                yield f"section {index} relocates what is at {offset:#x}"


_CHECKS = (_sections, _symbols, _relocations)
