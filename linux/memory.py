# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest kernel's memory by virtual address; the guest does not notice a look."""

from __future__ import annotations

from collections.abc import Iterator

from kpfs.engine.errors import MemoryFault
from kpfs.linux.board import PAGE_SIZE, Board


class KernelMemory:
    """Context: the machine's lock is held; it does not run.  It may be dead."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def read(self, addr: int, size: int) -> bytes:
        """Raises MemoryFault where not all of it is there."""
        ram = self._board.ram
        return b"".join(ram[at : at + n] for at, n in self.pieces(addr, size))

    def pieces(self, addr: int, size: int) -> Iterator[tuple[int, int]]:
        """Where it lies in the machine's memory: offset and size of each piece."""
        board = self._board
        while size > 0:
            count = min(size, PAGE_SIZE - addr % PAGE_SIZE)
            at = board.translate(addr)
            if at + count > len(board.ram):
                raise MemoryFault(addr)
            yield at, count
            addr, size = addr + count, size - count

    def word(self, addr: int) -> int:
        """The 64 bits at an address."""
        return int.from_bytes(self.read(addr, 8), "little")
