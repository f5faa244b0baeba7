# SPDX-License-Identifier: GPL-2.0-or-later
"""Lists of the kernel whose heads alone tell if they are as in the image."""

from __future__ import annotations

from collections.abc import Iterable

from kpfs.base.errors import MemoryFault
from kpfs.linux.board.board import Board
from kpfs.linux.memory.memory import KernelMemory
from kpfs.linux.memory.structures import Structures

_HEAD = "2L"  # next, prev


class Heads:
    """The heads of some lists.  Context: the machine's lock is held."""

    def __init__(
        self,
        board: Board,
        saved: KernelMemory,
        structures: Structures,
        names: Iterable[str],
    ) -> None:
        """saved: the memory of the image."""
        self._ram, pair = board.ram, saved.model.struct(_HEAD)
        self._heads: list[tuple[int, bytes]] = []
        self._known = True
        for name in names:
            try:
                address, _ = structures.data(name)
                head = saved.read(address, pair.size)
            except MemoryFault:  # an older kernel has none of that name
                self._known = False
                return
            first, last = pair.unpack(head)
            self._known &= first == last  # else the head alone would not show a change
            self._heads.append((board.translate(address), head))

    def unchanged(self) -> bool:
        """Return True if no list has changed, False if that is unknown."""
        if not self._known:
            return False
        ram = self._ram
        for at, head in self._heads:  # asked at each call, too often for a generator
            if ram[at : at + len(head)] != head:
                return False
        return True
