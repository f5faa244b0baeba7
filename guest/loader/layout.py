# SPDX-License-Identifier: GPL-2.0-or-later
"""Place the sections of a module in memory.

Text is executable and read-only for the guest, all else is data and never executable.
Sections named .init* go to pages of their own, which are given back after init.
"""

from __future__ import annotations

from collections.abc import Mapping

from kpfs.base import elf
from kpfs.base.ktypes import MASK64, Symbol
from kpfs.base.units import PAGE_SIZE
from kpfs.guest.emu.memory import KERNEL_DATA, KERNEL_RO, KERNEL_TEXT, PAGE_MASK, Memory
from kpfs.guest.loader.kallsyms import with_sizes

PERCPU_SECTION = ".data..percpu"
# sections that stay in the file though they are marked as taking memory
_NOT_LOADED = (".modinfo", "__versions", ".note", ".comment", ".discard")


class ModulePages:
    """Pages that come and go together.  Kernel: struct module_layout"""

    __slots__ = ("base", "size", "text_size")

    def __init__(self) -> None:
        self.base = self.size = self.text_size = 0

    def pages(self) -> range:
        """Return the numbers of the pages."""
        return range(self.base // PAGE_SIZE, (self.base + self.size) // PAGE_SIZE)


class ModulePlaces:
    """The places of a module's core and init part, each with its text first."""

    def __init__(self) -> None:
        self.core = ModulePages()
        self.init = ModulePages()
        self.places: dict[int, int] = {}  # section index to address
        self.symtab = 0  # room for the guest's table of the symbols
        self.percpu = 0  # the address of its per-CPU variables; 0: none

    def holds(self, addr: int) -> bool:
        """Kernel: within_module()"""
        core, init = self.core, self.init
        return 0 <= addr - core.base < core.size or 0 <= addr - init.base < init.size

    def is_text(self, addr: int) -> bool:
        core = self.core
        return 0 <= addr - core.base < core.text_size or self.in_init(addr)

    def in_init(self, addr: int) -> bool:
        return 0 <= addr - self.init.base < self.init.text_size

    def free(self, memory: Memory) -> None:
        """Give all pages back, for a module that has not run."""
        for part in (self.core, self.init):
            if part.size:
                memory.area.free(part.base)
        self.core, self.init = ModulePages(), ModulePages()

    def symbols(
        self, image: elf.ElfFile, module: str, exported: Mapping[str, object]
    ) -> list[Symbol]:
        """Return the module's symbols by address; aliases in the file's order.

        Kernel: layout_symtab(), add_kallsyms()
        """
        rows: list[tuple[int, str, str]] = []
        for sym in image.symbols():
            place = self.places.get(sym.shndx)
            if place is None or not sym.name or sym.kind == elf.STT_SECTION:
                continue
            if place == self.percpu:
                continue  # not in the module's pages
            letter = _letter(sym, image.sections[sym.shndx])
            if sym.name in exported:
                letter = letter.upper()
            rows.append(((place + sym.value) & MASK64, sym.name, letter))
        rows.sort(key=lambda row: row[0])
        return with_sizes(rows, self._end_of, module)

    def _end_of(self, addr: int) -> int:
        """Return where the last symbol of the kind that is at addr ends."""
        part = self.core if 0 <= addr - self.core.base < self.core.size else self.init
        text_end = part.base + part.text_size
        return text_end if addr < text_end else part.base + part.size


def _letter(sym: elf.ElfSymbol, section: elf.Section) -> str:
    """Kernel: elf_type() in kernel/module/kallsyms.c"""
    if sym.bind == elf.STB_WEAK:
        return "v" if sym.kind == elf.STT_OBJECT else "w"
    if section.flags & elf.SHF_EXECINSTR:
        return "t"
    if section.type == elf.SHT_NOBITS:
        return "b"
    return "d" if section.flags & elf.SHF_WRITE else "r"


def place_module(memory: Memory, image: elf.ElfFile, layout: ModulePlaces) -> None:
    """Lay out the sections to load; ENOMEM.  Kernel: move_module()"""
    names = [s.name for s in image.symbols() if s.name and 0 < s.shndx < 0xFF00]
    tail = sum(len(n) + 1 for n in names) + 24 * len(names)
    for part, init in ((layout.core, False), (layout.init, True)):
        groups = _groups(image, init)
        sizes = [packed(image, group)[0] for group in groups]
        if not init:
            sizes[2] = (sizes[2] + 7 & ~7) + tail
        pages = [(size + PAGE_MASK) & ~PAGE_MASK for size in sizes]
        if not sum(pages):
            continue
        part.base = memory.area.alloc(sum(pages), KERNEL_DATA)
        part.size = sum(pages)
        part.text_size = pages[0]
        at = part.base
        for group, size, flags in zip(
            groups, pages, (KERNEL_TEXT, KERNEL_RO, KERNEL_DATA), strict=True
        ):
            if size:
                memory.area.protect(at, size, flags)
            end, offsets = packed(image, group)
            for index, offset in offsets.items():
                layout.places[index] = at + offset
            if not init:
                layout.symtab = at + (end + 7 & ~7)
            at += size


def _groups(image: elf.ElfFile, init: bool) -> list[list[int]]:
    """Return the sections of one part by index: text, read-only data, data."""
    groups: list[list[int]] = [[], [], []]
    for index, section in enumerate(image.sections):
        if not section.flags & elf.SHF_ALLOC or section.name.startswith(_NOT_LOADED):
            continue
        if section.name == PERCPU_SECTION:
            continue
        if section.name.startswith(".init") != init:
            continue
        if section.flags & elf.SHF_EXECINSTR:
            kind = 0
        else:
            kind = 2 if section.flags & elf.SHF_WRITE else 1
        groups[kind].append(index)
    return groups


def packed(image: elf.ElfFile, group: list[int]) -> tuple[int, dict[int, int]]:
    """Return (size in bytes, offset of each section) for one group."""
    offsets: dict[int, int] = {}
    end = 0
    for index in group:
        section = image.sections[index]
        align = max(section.align, 1)
        end = (end + align - 1) // align * align
        offsets[index] = end
        end += section.size
    return end, offsets
