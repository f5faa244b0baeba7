# SPDX-License-Identifier: GPL-2.0-or-later
"""A relocatable object that stays for good: the engine's runtime image.

Its text is executable and read-only for the guest, all else is data and never
executable.
"""

from __future__ import annotations

from collections.abc import Callable

from kpfs.base import elf
from kpfs.base.ktypes import KAddr, Symbol
from kpfs.guest.emu.memory import KERNEL_DATA, KERNEL_TEXT, Memory
from kpfs.guest.loader.layout import packed


class LoadedObject:
    """The places of a relocatable file's sections in the guest."""

    def __init__(self, image: elf.ElfFile) -> None:
        self.image = image
        self.places: dict[int, int] = {}  # section index to address
        self.symbols: dict[str, int] = {}

    def functions(self, own: str) -> list[Symbol]:
        """Return its global functions by address, without names that begin with own."""
        return sorted(
            (
                Symbol(sym.name, KAddr(self.symbols[sym.name]), sym.size, "t", "")
                for sym in self.image.symbols()
                if sym.kind == elf.STT_FUNC
                and sym.bind == elf.STB_GLOBAL
                and not sym.name.startswith(own)
                and sym.name in self.symbols
            ),
            key=lambda symbol: symbol.addr,
        )


def load_object(
    memory: Memory, data: bytes, resolve: Callable[[str], int | None]
) -> LoadedObject:
    """Place and link a relocatable file; ``resolve`` finds what it does not define.

    ENOEXEC, ENOENT, ENOMEM: nothing stays allocated.  Context: control.
    """
    image = elf.ElfFile(data)
    loaded = LoadedObject(image)
    blocks: list[int] = []  # addresses of the pages got for it
    try:
        _place(memory, loaded, blocks)
        images, loaded.symbols = elf.relocate(image, loaded.places, resolve)
    except BaseException:
        for start in blocks:
            memory.area.free(start)
        raise
    for index, contents in images.items():
        if contents:
            memory.write(loaded.places[index], bytes(contents))
    return loaded


def _place(memory: Memory, loaded: LoadedObject, blocks: list[int]) -> None:
    """Give every section that takes memory an address in the block of its kind."""
    sections = loaded.image.sections
    taking = [i for i, section in enumerate(sections) if section.flags & elf.SHF_ALLOC]
    for kind, flags in ((elf.SHF_EXECINSTR, KERNEL_TEXT), (0, KERNEL_DATA)):
        group = [i for i in taking if sections[i].flags & elf.SHF_EXECINSTR == kind]
        if group:
            size, offsets = packed(loaded.image, group)
            blocks.append(memory.area.alloc(size, flags))
            for index, offset in offsets.items():
                loaded.places[index] = blocks[-1] + offset
