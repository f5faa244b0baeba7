# SPDX-License-Identifier: GPL-2.0-or-later
"""The files of a Linux kernel's modules, which are in its memory as it loads them.

They have the lines of functions, and the places and sizes of variables.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING

from kpfs.base import abi, elf
from kpfs.base.errors import KernelError, MemoryFault
from kpfs.linux.memory.structures import View

if TYPE_CHECKING:
    from kpfs.linux.memory.modules import LoadedModule
    from kpfs.linux.running.kernel_on_board import KernelOnBoard

_LOADS = "load_module"  # has a struct load_info as its first argument
_KEPT_FILES = 64
_MOST_ALIGNED = 64  # bytes that are left free at most


class ModuleFiles:
    """The files of the modules that were loaded last.  Context: lock held."""

    def __init__(self, kernel: KernelOnBoard) -> None:
        self._kernel = kernel
        self.by_name: dict[str, elf.ElfFile] = {}  # by the names of modules
        self._loads = kernel.symbols.address(_LOADS)

    def follow(self) -> None:
        """Keep the files of modules that this machine loads from now on."""
        calls = [(self._loads, abi.NEVER)] if self._loads else []
        self._kernel.machine.stops.set(self._stopped, calls)

    def _stopped(self, _at: int) -> None:
        """Keep the file of a module that is about to be loaded."""
        kernel, layout = self._kernel, self._kernel.structures["load_info"]
        address = kernel.machine.board.read_reg(kernel.arch.arguments[0])
        with suppress(MemoryFault):
            info = View(kernel.memory, layout, address)
            self.keep(kernel.memory.read(info.word("hdr"), info.word("len")))

    def keep(self, data: bytes) -> None:
        """Keep a file, if it is that of a module."""
        try:
            file = elf.ElfFile(data, self._kernel.arch.elf_machine)
            section = file.section(".modinfo")
            words = file.contents(section).split(b"\0") if section else []
        except KernelError:
            return
        names = [word[5:] for word in words if word.startswith(b"name=")]
        if names:
            name = names[0].decode("latin-1")
            self.by_name.pop(name, None)
            self.by_name[name] = file
            for name in list(self.by_name)[:-_KEPT_FILES]:
                del self.by_name[name]

    def sections(self, module: LoadedModule, kind: int) -> dict[int, int]:
        """Return where sections of a module's file lie, by symbols of one kind.

        Empty: the file is not known.
        """
        file = self.by_name.get(module.name)
        if file is None:
            return {}
        named = {row.name: row.addr for row in module.rows}
        counts: dict[str, int] = {}
        for row in module.rows:
            counts[row.name] = counts.get(row.name, 0) + 1
        places: dict[int, int] = {}
        for sym in file.symbols():
            if sym.kind == kind and counts.get(sym.name) == 1:
                places.setdefault(sym.shndx, named[sym.name] - sym.value)
        return places

    def gaps(self, module: LoadedModule) -> list[tuple[int, int]]:
        """Return address and size of what lies between two variables of a module.

        It is what the compiler leaves free there so that the second one is aligned.
        """
        file = self.by_name.get(module.name)
        if file is None:
            return []
        places = self.sections(module, elf.STT_OBJECT)
        sections = {
            number
            for number, section in enumerate(file.sections)
            if section.name in (".data", ".bss")
        }
        found = []
        for number in sections & places.keys():
            variables = sorted(
                (sym.value, sym.value + sym.size)
                for sym in file.symbols()
                if sym.kind == elf.STT_OBJECT and sym.shndx == number and sym.size
            )
            for (_, end), (start, _) in pairwise(variables):
                if 0 < start - end < _MOST_ALIGNED:
                    found.append((places[number] + end, start - end))
        return found
