# SPDX-License-Identifier: GPL-2.0-or-later
"""Python's side of board/x86/shadow.c: the objects that checked text has allocated."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kpfs.base import abi, mapping
from kpfs.base.structures import fields
from kpfs.linux.board.board import address_of
from kpfs.linux.search.texts import Texts

if TYPE_CHECKING:
    from kpfs.linux.running.kernel_on_board import KernelOnBoard

KEPT_BYTES = 8 << 20  # what freed objects may have
_NO_LEAK_TRACE, _TYPESAFE = 0x800000, 0x80000  # flags of caches before Linux 6.9
_SHIFT = 3  # 8 bytes of RAM have one byte


class ObjectRow(ctypes.Structure):
    """struct object."""

    _fields_ = fields(abi.Object)


class Objects:
    """The objects of one kernel's checked texts.  Context: the kernel stands still."""

    def __init__(self, kernel: KernelOnBoard, texts: Texts) -> None:
        self._texts = texts
        self._bytes = mapping.make(len(kernel.machine.board.ram) >> _SHIFT)
        self._memory = mapping.make(abi.Shadow.SIZE)
        words = memoryview(self._memory).cast("Q")
        bits = kernel.structures.values
        caches = kernel.structures["kmem_cache"].at
        symbols = kernel.symbols
        values = {
            "bytes": address_of(self._bytes),
            "no_merge": _flag(bits.get("_SLAB_NOLEAKTRACE"), _NO_LEAK_TRACE),
            "typesafe": _flag(bits.get("_SLAB_TYPESAFE_BY_RCU"), _TYPESAFE),
            "object_size": caches.get("object_size", 0),
            "free_object": symbols.address("kmem_cache_free"),
            "pages": kernel.memory.word(symbols.address("vmemmap_base")),
            "page_size": kernel.structures["page"].size or 64,
            "keep": KEPT_BYTES,
        }
        for name, value in values.items():
            words[getattr(abi.Shadow, name) >> 3] = value
        texts.set(shadow=address_of(self._memory))
        self._board = kernel.machine.board
        self._gaps: dict[int, list[tuple[int, int]]] = {}  # by the numbers of texts

    def begin_module(self, number: int, gaps: list[tuple[int, int]]) -> None:
        """Have nothing access what lies between variables: address and size of each."""
        self._gaps[number] = gaps
        for start, size in gaps:
            self._board.mark_gap(start, size)

    def end_module(self, number: int) -> None:
        """Forget what lies between the variables of a module that is freed."""
        for start, size in self._gaps.pop(number, ()):
            self._board.unmark(start, size)

    def row(self, number: int) -> ObjectRow:
        """Return an object by its index."""
        at = abi.Shadow.objects + number * abi.Object.SIZE
        return ObjectRow.from_buffer_copy(self._memory, at)

    def of_owner(self, owner: int) -> Iterator[ObjectRow]:
        """Yield the objects that a text's module has allocated and nobody has freed."""
        begin, size = abi.Shadow.objects, abi.Object.SIZE
        words = memoryview(self._memory)[begin:].cast("Q")
        step = size >> 3
        state, whose = abi.Object.state >> 3, abi.Object.owner >> 3
        owners = words[whose::step]
        for number, value in enumerate(words[state::step]):
            if value == abi.OBJECT_LIVE and owners[number] == owner:
                yield self.row(number)


def _flag(bit: int | None, otherwise: int) -> int:
    return otherwise if bit is None else 1 << bit
