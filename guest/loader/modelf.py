# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks that a file is a module of this kernel, before anything of it is placed.

Each refusal says in the kernel log what Linux says there.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from kpfs.base import elf
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KERN_ERR, KERN_WARNING
from kpfs.guest.loader.modtables import damage, whole_rows

THIS_MODULE = ".gnu.linkonce.this_module"
# Kernel: license_is_gpl_compatible()
GPL_LICENSES = (
    "GPL",
    "GPL v2",
    "GPL and additional rights",
    "Dual BSD/GPL",
    "Dual MIT/GPL",
    "Dual MPL/GPL",
)

Say = Callable[[int, str], None]  # level, text


class RelocatableFile(elf.ElfFile):
    """A relocatable file whose sections, once linked, read as they lie in memory.

    Of a list of the kernel's they read as the rows that it has.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.linked: dict[int, bytearray] = {}

    def section(self, name: str) -> elf.Section | None:
        """Return the first section of a name that takes memory. Kernel: find_sec()"""
        index = self.index(name)
        return None if index is None else self.sections[index]

    def index(self, name: str) -> int | None:
        """Return the index of the section of that name."""
        for i, section in enumerate(self.sections):
            if section.name == name and section.flags & elf.SHF_ALLOC:
                return i
        return None

    def contents(self, section: elf.Section) -> bytes:
        index = self.sections.index(section)
        image = self.linked.get(index)
        if image is None:
            return super().contents(section)
        return whole_rows(section.name, bytes(image))

    def modinfo(self) -> dict[str, str]:
        """Return the words of .modinfo, the first of each name."""
        section = self.section(".modinfo")
        info: dict[str, str] = {}
        raw = b"" if section is None else self.contents(section)
        for word in raw.split(b"\0"):
            name, equals, value = word.decode("latin-1").partition("=")
            if equals:
                info.setdefault(name, value)
        return info


def _refuse(say: Say, text: str, level: int = KERN_ERR) -> KernelError:
    say(level, text)
    return KernelError(errno.ENOEXEC, text)


def elf_validity_check(data: bytes, say: Say) -> None:
    """Check headers and sections; ENOEXEC.  Kernel: elf_validity_check()"""
    if len(data) < elf.EHDR.size:
        raise _refuse(say, f"Invalid ELF header len {len(data)}")
    head = elf.EHDR.unpack_from(data)
    if head[0][:4] != b"\x7fELF":
        raise _refuse(say, "Invalid ELF header magic: != \x7fELF")
    if head[1] != elf.ET_REL:
        raise _refuse(say, f"Invalid ELF header type: {head[1]} != {elf.ET_REL}")
    if head[2] != elf.EM_X86_64:
        raise _refuse(say, f"Invalid architecture in ELF header: {head[2]}")
    shoff, shentsize, shnum, shstrndx = head[6], head[11], head[12], head[13]
    if shentsize != elf.SHDR.size:
        raise _refuse(say, "Invalid ELF section header size")
    if shoff >= len(data) or shnum * elf.SHDR.size > len(data) - shoff:
        raise _refuse(say, "Invalid ELF section header overflow")
    if not 0 < shstrndx < shnum:
        raise _refuse(
            say,
            f"Invalid ELF section name index: {shstrndx} || e_shstrndx "
            f"({shstrndx}) >= e_shnum ({shnum})",
        )
    rows = [elf.SHDR.unpack_from(data, shoff + i * elf.SHDR.size) for i in range(shnum)]
    kind, offset, size = rows[shstrndx][1], rows[shstrndx][4], rows[shstrndx][5]
    if offset + size > len(data):
        raise _refuse(say, f"Invalid ELF section hdr(type {kind})")
    if not size:
        raise _refuse(say, "empty section name table")
    if data[offset + size - 1]:
        raise _refuse(
            say, "ELF Spec violation: section name table isn't null terminated"
        )
    _check_sections(data, rows, shstrndx, say)


def _check_sections(
    data: bytes, rows: list[tuple[int, ...]], shstrndx: int, say: Say
) -> None:
    kind, addr, size = rows[0][1], rows[0][3], rows[0][5]
    if kind or size or addr:
        raise _refuse(
            say,
            f"ELF Spec violation: section 0 type({kind})!=SH_NULL "
            "or non-zero len or addr",
        )
    for index, row in enumerate(rows):
        name, kind, flags, _, offset, size, link = row[:7]
        if kind in (0, elf.SHT_NOBITS):
            continue
        if kind == elf.SHT_SYMTAB and not 0 < link < len(rows):
            raise _refuse(
                say,
                f"Invalid ELF sh_link!=SHN_UNDEF({link}) or (sh_link({link}) "
                f">= hdr->e_shnum({len(rows)})",
            )
        where = f"in module (section {index} type {kind})"
        if offset + size > len(data):
            raise _refuse(say, f"Invalid ELF section {where}")
        if flags & elf.SHF_ALLOC and name >= rows[shstrndx][5]:
            raise _refuse(say, f"Invalid ELF section name {where}")


def open_module(data: bytes, vermagic: str, say: Say) -> RelocatableFile:
    """Return the file of a module that may be loaded, with all its headers checked.

    Kernel: setup_load_info(), the first half of check_modinfo()
    """
    elf_validity_check(data, say)
    try:
        image = RelocatableFile(data)
    except KernelError as exc:
        raise _refuse(say, f"Invalid ELF file: {exc.why}") from None
    info = image.modinfo()
    name = info.get("name", "(missing .modinfo name field)")
    if not any(s.type == elf.SHT_SYMTAB for s in image.sections):
        raise _refuse(say, f"{name}: module has no symbols (stripped?)", KERN_WARNING)
    this = image.section(THIS_MODULE)
    if this is None:
        raise _refuse(say, f"{name}: No module found in object", KERN_WARNING)
    magic = info.get("vermagic")
    if magic is None:
        raise KernelError(errno.ENOEXEC, f"{name}: bad vermagic")
    if magic != vermagic:
        raise _refuse(say, f"{name}: version magic '{magic}' should be '{vermagic}'")
    if what := damage(image):
        raise _refuse(say, f"{name}: damaged module: {what}")
    return image
