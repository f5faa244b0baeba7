# SPDX-License-Identifier: GPL-2.0-or-later
"""Guest data memory for the engine's records, in blocks."""

from __future__ import annotations

from kpfs.base import mapping
from kpfs.base.ktypes import KAddr
from kpfs.engine.machine import Machine

CHUNK_SIZE = 0x10000  # bytes got from the machine at a time


class Heap:
    """Guest data memory in blocks of a power of two; freed blocks are used again.

    Those above CHUNK_SIZE are multiples of it: what comes behind one at a distance of a
    power of two would share the emulator's entry for its first pages. Context: control.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._free: dict[int, list[KAddr]] = {}
        self._fill = (0, 0)  # unused rest of the newest chunk
        # of the newest chunk, and of each block's: its address, bytes and words
        self._chunk = 0, memoryview(b""), memoryview(b"")
        self._chunk_of: dict[int, tuple[int, memoryview, memoryview]] = {}

    def alloc(self, size: int) -> KAddr:
        """Return a zeroed block of at least size bytes, aligned to 64."""
        size = self._class(size)
        free = self._free.get(size)
        if free:
            addr = free.pop()
            self.view(addr, size)[:] = bytes(size)
            return addr
        start, end = self._fill
        if start + size > end:
            room = max(CHUNK_SIZE, size)
            start = self.machine.area.alloc_data(room)
            end = start + room
            view = self.machine.view(start, room)
            words = mapping.known(view.cast("B").cast("Q"))
            self._chunk = start, view, words
        self._fill = (start + size, end)
        self._chunk_of[start] = self._chunk
        return KAddr(start)

    def free(self, addr: KAddr, size: int) -> None:
        """Give back a block; size is what was given to alloc()."""
        self._free.setdefault(self._class(size), []).append(addr)

    def view(self, addr: KAddr, size: int) -> memoryview:
        """Return the bytes of a block."""
        start, view, _ = self._chunk_of[addr]
        return mapping.known(view[addr - start : addr - start + size])

    def words(self, addr: KAddr) -> tuple[memoryview, int]:
        """Return (64-bit words of a block's chunk, index of the block's first)."""
        start, _, words = self._chunk_of[addr]
        return words, (addr - start) // 8

    @staticmethod
    def _class(size: int) -> int:
        if size > CHUNK_SIZE:
            return -(-size // CHUNK_SIZE) * CHUNK_SIZE
        return max(64, 1 << (size - 1).bit_length())
