# SPDX-License-Identifier: GPL-2.0-or-later
"""The facts about a kernel before it runs: its image, symbols and types."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

from kpfs.linux.arch.arches import ARCHES
from kpfs.linux.memory.memory import SavedMemory
from kpfs.linux.memory.structures import Structures
from kpfs.linux.memory.symbols import CoreSymbols
from kpfs.linux.store import image
from kpfs.linux.store.kept import KeptFile

if TYPE_CHECKING:
    from kpfs.linux.memory.functions import FunctionIndex
    from kpfs.linux.memory.structures import Tables
    from kpfs.linux.memory.vmlinux import Vmlinux

TABLES = "vmlinux"  # the name in the folder of symbols and call frames
NAMES = "names"  # likewise of the places of symbols by their names
STRUCTURES = "structures"  # likewise of layouts of structures
FUNCTIONS = "calls"  # likewise of the index of functions


class SavedKernel:
    """A kernel's folder, read as far as it is needed.  UnfitError, OSError."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.meta = image.read_meta(folder)
        self.arch = ARCHES[self.meta.arch]
        names = KeptFile(folder, NAMES, self.meta).get_if_kept
        self.symbols = CoreSymbols(os.path.join(folder, image.SYMBOLS), names)
        self.file = image.open_ram(folder, self.meta)
        self.memory = SavedMemory(image.map_saved(self.file, self.meta))
        keep = KeptFile(folder, STRUCTURES, self.meta).get
        self.structures = Structures(self.memory, self.symbols, keep, self._find)

    def _find(self) -> Tables:
        """Find the layouts of a kernel without BTF, which takes half a second."""
        from kpfs.linux.running.layouts import find_layouts

        return find_layouts(self.folder, self.file, self.meta, self.symbols)

    def close(self) -> None:
        """Close its files. Nothing of it may be used afterwards."""
        self.file.close()
        self.memory.close()
        self.symbols.close()

    @cached_property
    def functions(self) -> FunctionIndex:
        """The index of its functions, which takes seconds to make the first time."""
        from kpfs.linux.memory.functions import FunctionIndex, index_pieces

        keep = KeptFile(self.folder, FUNCTIONS, self.meta).get
        parts = self.memory, self.symbols, self.arch.name
        return FunctionIndex(keep(lambda: index_pieces(*parts)))

    @property
    def is_indexed(self) -> bool:
        """True if its functions take no time to make."""
        return KeptFile(self.folder, FUNCTIONS, self.meta).read() is not None

    @cached_property
    def vmlinux(self) -> Vmlinux:
        """The kernel's ELF file.  It costs time to import what makes it."""
        from kpfs.linux.memory.vmlinux import Vmlinux

        keep = KeptFile(self.folder, TABLES, self.meta).get
        parts = self.memory, self.symbols, self.structures, self.arch.elf_machine
        return Vmlinux(*parts, keep)
