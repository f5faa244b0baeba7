# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's memory by virtual address, read without the kernel noticing."""

from __future__ import annotations

import contextlib
import errno
import mmap
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator

from kpfs.base.data_model import LITTLE_64, DataModel
from kpfs.base.errors import KernelError, MemoryFault
from kpfs.base.units import PAGE_SIZE
from kpfs.linux.board.board import Board, SavedBoard, Space

MAX_READ = 64 << 20  # bytes at once; BTF has 5 to 10 MB
# the most that one look into structures reads
MAX_PIECES = 1 << 18
MAX_BYTES = 64 << 20


@contextlib.contextmanager
def looking() -> Iterator[None]:
    """Look into structures; KernelError(EFAULT): they are not as they should be."""
    try:
        yield
    except (MemoryFault, KeyError, ValueError, struct.error) as fault:
        raise KernelError(errno.EFAULT, str(fault)) from None


def pages_of(addr: int, size: int) -> Iterator[tuple[int, int]]:
    """Split a piece of memory into pages: address and size of each part."""
    end = addr + size
    while addr < end:
        count = min(end - addr, PAGE_SIZE - addr % PAGE_SIZE)
        yield addr, count
        addr += count


class KernelMemory(ABC):
    """Reads by virtual address; raises MemoryFault if any of it is missing.

    Sizes come from the kernel, too, which may have mapped a page a million times.
    """

    model: DataModel = LITTLE_64

    def read(self, addr: int, size: int) -> bytes:
        if not 0 <= size <= MAX_READ:
            raise MemoryFault(addr)
        if addr % PAGE_SIZE + size <= PAGE_SIZE:  # nearly always
            piece = self._piece(addr, size)
            if len(piece) < size:
                raise MemoryFault(addr)
            return piece
        found = []
        for at, count in pages_of(addr, size):
            piece = self._piece(at, count)
            if len(piece) < count:
                raise MemoryFault(at)
            found.append(piece)
        return b"".join(found)

    def word(self, addr: int) -> int:
        """Return the long at an address."""
        return self.number(addr, self.model.long)

    def number(self, addr: int, size: int) -> int:
        """Return the unsigned number of so many bytes at an address."""
        return self.model.number(self.read(addr, size))

    def string(self, addr: int, size: int = PAGE_SIZE) -> str:
        """Return the text at an address up to its NUL, of at most size bytes."""
        found = b""
        while len(found) < size and b"\0" not in found:
            at = addr + len(found)
            found += self.read(at, min(size - len(found), PAGE_SIZE - at % PAGE_SIZE))
        return found.partition(b"\0")[0].decode("latin-1")

    def nodes(self, head: int, most: int) -> Iterator[int]:
        """Yield the addresses of a list's nodes, at most so many.

        head: address of a struct list_head or hlist_head.
        """
        node = self.word(head)
        while node not in (0, head) and most:
            yield node
            node, most = self.word(node), most - 1

    def page_that_begins(self, start: bytes) -> bytes:
        """Return the first page of RAM that begins so; raises MemoryFault."""
        raise MemoryFault(0)

    @abstractmethod
    def _piece(self, addr: int, size: int) -> bytes:
        """Return bytes of one page, b"" if the page is missing."""


class OneLook(KernelMemory):
    """Memory that is read by one look into structures, which a kernel may forge.

    Lists may lead into lists without an end. So MemoryFault ends a look that reads more
    than any sound kernel has.
    """

    def __init__(self, memory: KernelMemory, size: int = MAX_BYTES) -> None:
        """size: bytes that a look may read."""
        self._memory, self.model = memory, memory.model
        self._pieces, self._bytes = MAX_PIECES, size

    def _piece(self, addr: int, size: int) -> bytes:
        self._pieces -= 1
        self._bytes -= size
        if self._pieces < 0 or self._bytes < 0:
            raise MemoryFault(addr)
        return self._memory._piece(addr, size)


class LiveMemory(KernelMemory):
    """The memory of a stopped machine, alive or dead. Context: its lock is held."""

    def __init__(self, board: Board, space: Space = Space.KERNEL) -> None:
        self._space = space
        self._board, self.model = board, board.arch.model

    @property
    def of_program(self) -> LiveMemory:
        """The memory of the program that runs, or has called the kernel."""
        return LiveMemory(self._board, Space.PROGRAM)

    def page_that_begins(self, start: bytes) -> bytes:
        ram, at = self._board.ram, -1
        while (at := ram.find(start, at + 1)) >= 0:
            if not at % PAGE_SIZE:
                return ram[at : at + PAGE_SIZE]
        raise MemoryFault(0)

    def write(self, addr: int, data: bytes) -> None:
        """Change all of these bytes or none; raises MemoryFault.

        Code that was translated from them stays as it is.
        """
        pieces = []
        for at, size in pages_of(addr, len(data)):
            memory, place = self._place(at)
            if memory is None:
                raise MemoryFault(at)
            pieces.append((memory, place, data[at - addr : at - addr + size]))
        for memory, place, piece in pieces:
            memory[place : place + len(piece)] = piece

    def read_u64(self, addr: int) -> int:
        """See kpfs.engine.machine.Machine."""
        return self.word(addr)

    def write_u64(self, addr: int, value: int) -> None:
        self.write_number(addr, value)

    def write_number(self, addr: int, value: int, size: int = 0) -> None:
        """Write a number of so many bytes, by default a long; raises MemoryFault."""
        self.write(addr, self.model.raw(value, size or self.model.long))

    def _place(self, addr: int) -> tuple[mmap.mmap | None, int]:
        """Return the mapping that has an address, and the offset in it.

        The mapping is the RAM, or what the agent shares with the host.
        """
        board = self._board
        at = board.translate(addr, self._space)
        if at < len(board.ram):
            return board.ram, at
        if 0 <= at - board.arch.region_phys < len(board.region):
            return board.region, at - board.arch.region_phys
        return None, 0

    def _piece(self, addr: int, size: int) -> bytes:
        memory, at = self._place(addr)
        return b"" if memory is None else memory[at : at + size]


class SavedMemory(KernelMemory):
    """The memory of a saved image. Context: any."""

    def __init__(self, board: SavedBoard) -> None:
        self._board, self.model = board, board.arch.model

    def close(self) -> None:
        """Unmap the image. Reads are a ValueError from now on."""
        self._board.close()

    def _piece(self, addr: int, size: int) -> bytes:
        at = self._board.translate(addr)
        return self._board.ram[at : at + size]
