# SPDX-License-Identifier: GPL-2.0-or-later
"""A relocatable object that stays for good: the engine's runtime image.

Its text is executable and read-only for the guest, all else is data and never
executable.
"""

from __future__ import annotations

from collections.abc import Callable

from kpfs.engine.ktypes import KAddr, Symbol
from kpfs.guest.emu.memory import KERNEL_DATA, KERNEL_TEXT, Memory
from kpfs.guest.loader import elf


class LoadedObject:
    """Where a relocatable file has come to lie."""

    def __init__(self, image: elf.ElfFile) -> None:
        self.image = image
        self.places: dict[int, int] = {}  # section index to address
        self.symbols: dict[str, int] = {}
        self.blocks: list[int] = []  # addresses of the pages got for it

    def functions(self, own: str) -> list[Symbol]:
        """Its global functions, by address, but those whose names begin with own."""
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
    try:
        _place(memory, loaded)
        images = {
            index: bytearray(image.contents(image.sections[index]))
            for index in loaded.places
        }
        loaded.symbols = elf.relocate(image, loaded.places, images, resolve)
    except BaseException:
        unload_object(memory, loaded)
        raise
    for index, contents in images.items():
        if contents:
            memory.write(loaded.places[index], bytes(contents))
    return loaded


def unload_object(memory: Memory, loaded: LoadedObject) -> None:
    """Give the pages back; the caller drops the translated code.  Context: control."""
    for start in loaded.blocks:
        memory.area.free(start)
    loaded.blocks.clear()


def _place(memory: Memory, loaded: LoadedObject) -> None:
    """Give every section that takes memory an address in the block of its kind."""
    groups: dict[bool, list[tuple[int, int]]] = {}
    sizes: dict[bool, int] = {}
    for index, section in enumerate(loaded.image.sections):
        if not section.flags & elf.SHF_ALLOC:
            continue
        text = bool(section.flags & elf.SHF_EXECINSTR)
        align = max(section.align, 1)
        offset = (sizes.get(text, 0) + align - 1) // align * align
        groups.setdefault(text, []).append((index, offset))
        sizes[text] = offset + section.size
    for text, members in groups.items():
        start = memory.area.alloc(sizes[text], KERNEL_TEXT if text else KERNEL_DATA)
        loaded.blocks.append(start)
        for index, offset in members:
            loaded.places[index] = start + offset
