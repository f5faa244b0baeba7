# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest kernel's memory by virtual address; the guest does not notice a look."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod

from kpfs.engine.errors import MemoryFault
from kpfs.linux.board.board import PAGE_SIZE, Board

_SHIFTS = (39, 30, 21, 12)  # of the levels of page tables
_PRESENT, _LARGE, _ADDRESS = 1, 0x80, 0x000F_FFFF_FFFF_F000


class KernelMemory(ABC):
    """Reads by virtual address; raises MemoryFault where not all of it is there."""

    def read(self, addr: int, size: int) -> bytes:
        found = []
        while size > 0:
            count = min(size, PAGE_SIZE - addr % PAGE_SIZE)
            piece = self._piece(addr, count)
            if len(piece) < count:
                raise MemoryFault(addr)
            found.append(piece)
            addr, size = addr + count, size - count
        return b"".join(found)

    def word(self, addr: int) -> int:
        """The 64 bits at an address."""
        return int.from_bytes(self.read(addr, 8), "little")

    def string(self, addr: int, size: int = PAGE_SIZE) -> str:
        """The text at an address up to its NUL, of at most size bytes."""
        found = b""
        while len(found) < size and b"\0" not in found:
            at = addr + len(found)
            found += self.read(at, min(size - len(found), PAGE_SIZE - at % PAGE_SIZE))
        return found.partition(b"\0")[0].decode("latin-1")

    @abstractmethod
    def _piece(self, addr: int, size: int) -> bytes:
        """Bytes of one page, b"" where there is none."""


class LiveMemory(KernelMemory):
    """Of a machine.  Context: its lock is held; it does not run.  It may be dead."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def _piece(self, addr: int, size: int) -> bytes:
        at = self._board.translate(addr)
        return self._board.ram[at : at + size] if at < len(self._board.ram) else b""


class SavedMemory(KernelMemory):
    """Of an image.  Context: any."""

    def __init__(self, ram: int, cr3: int) -> None:
        """ram: a descriptor of its file."""
        self._ram = ram
        self._cr3 = cr3

    def _piece(self, addr: int, size: int) -> bytes:
        table = self._cr3 & _ADDRESS
        for shift in _SHIFTS:
            raw = os.pread(self._ram, 8, table + 8 * (addr >> shift & 511))
            entry, below = int.from_bytes(raw, "little"), (1 << shift) - 1
            if not entry & _PRESENT:
                return b""
            if shift < _SHIFTS[0] and (entry & _LARGE or shift == _SHIFTS[-1]):
                at = entry & _ADDRESS & ~below | addr & below
                return os.pread(self._ram, size, at)
            table = entry & _ADDRESS
        return b""
