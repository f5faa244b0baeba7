# SPDX-License-Identifier: GPL-2.0-or-later
"""What is known of a kernel before it runs: its image, symbols and types."""

from __future__ import annotations

import os

from kpfs.linux.arch.arches import ARCHES
from kpfs.linux.memory.memory import SavedMemory
from kpfs.linux.memory.structures import Structures
from kpfs.linux.memory.symbols import CoreSymbols
from kpfs.linux.store import image


class SavedKernel:
    """A kernel's folder, read as far as it is needed.  UnfitError, OSError."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.meta = image.read_meta(folder)
        self.arch = ARCHES[self.meta.arch]
        self.symbols = CoreSymbols(os.path.join(folder, image.SYMBOLS))
        self.file = image.open_ram(folder, self.meta)
        table = self.arch.page_table(self.meta.processors[0].saved())
        self.memory = SavedMemory(self.file.fileno(), self.arch, table)
        self.structures = Structures(self.memory, self.symbols)
