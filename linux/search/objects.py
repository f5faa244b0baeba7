# SPDX-License-Identifier: GPL-2.0-or-later
"""Python's side of board/search/shadow.c: objects that checked text has allocated."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Iterator
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from kpfs.base import abi, mapping
from kpfs.base.structures import fields
from kpfs.linux.board.board import address_of
from kpfs.linux.search.frames import Frames
from kpfs.linux.search.texts import Texts

if TYPE_CHECKING:
    from kpfs.linux.running.kernel_on_board import KernelOnBoard

KEPT_BYTES = 8 << 20  # what freed objects may have
_NO_LEAK_TRACE, _TYPESAFE = 0x800000, 0x80000  # flags of caches before Linux 6.9
_SHIFT = 3  # 8 bytes of RAM have one byte
_OF_PAGES = {"refcount": "_refcount", "lru": "lru"}
_ENABLED = 0xFFFFFFFF
_MOST_ALIGNED = 64  # bytes that a compiler leaves free between variables
Range = tuple[int, int]


class ObjectRow(ctypes.Structure):
    """struct object."""

    _fields_ = fields(abi.Object)


class Objects:
    """The objects of one kernel's checked texts.  Context: the kernel stands still."""

    def __init__(self, kernel: KernelOnBoard, texts: Texts) -> None:
        self._texts = texts
        self._bytes = mapping.make(len(kernel.machine.board.ram) >> _SHIFT)
        self._never = mapping.make(len(self._bytes))
        self._memory = mapping.make(abi.Shadow.SIZE)
        words = memoryview(self._memory).cast("Q")
        bits = kernel.structures.values
        caches = kernel.structures["kmem_cache"].at
        pages, symbols = kernel.structures["page"], kernel.symbols
        clears = symbols.address("init_on_alloc")
        args = kernel.structures["kmem_cache_args"].at
        values = {
            "bytes": address_of(self._bytes),
            "never": address_of(self._never),
            "no_merge": _flag(bits.get("_SLAB_NOLEAKTRACE"), _NO_LEAK_TRACE),
            "typesafe": _flag(bits.get("_SLAB_TYPESAFE_BY_RCU"), _TYPESAFE),
            "object_size": caches.get("object_size", 0),
            **{name: args.get(name, 0) for name in ("ctor", "align", "usersize")},
            # the first word of a static key
            "fills": not (clears and kernel.memory.word(clears) & _ENABLED),
            **{name: pages.at.get(f, 0) for name, f in _OF_PAGES.items()},
            "free_pages": symbols.address("__free_pages"),
            "free_object": symbols.address("kmem_cache_free"),
            "pages": texts.arch.pages(kernel),
            "page_size": pages.size or 64,
            "keep": KEPT_BYTES,
        }
        for name, value in values.items():
            words[getattr(abi.Shadow, name) >> 3] = value
        self._words = words
        texts.set(shadow=address_of(self._memory))
        self._board = kernel.machine.board
        self._gaps: dict[int, list[Range]] = {}  # by the numbers of texts
        self._variables: dict[int, list[Range]] = {}
        self._table = mapping.make(abi.Variable.SIZE)
        self.frames = Frames(self._board, words)

    def begin_module(self, number: int, variables: list[Range]) -> None:
        """Have nothing access what lies between variables: begin and end of each."""
        self._variables[number] = variables
        self._gaps[number] = gaps = [
            (end, begin - end)
            for (_, end), (begin, _) in pairwise(variables)
            if 0 < begin - end < _MOST_ALIGNED
        ]
        for start, size in gaps:
            self._board.mark_gap(start, size)
        self._tell_variables()

    def _tell_variables(self) -> None:
        """Have the board know the variables of all modules."""
        rows = sorted(chain.from_iterable(self._variables.values()))
        table = mapping.make((len(rows) or 1) * abi.Variable.SIZE)
        words = memoryview(table).cast("Q")
        words[: 2 * len(rows)] = array("Q", chain.from_iterable(rows))
        self._words[abi.Shadow.variables >> 3] = address_of(table)
        self._words[abi.Shadow.nr_variables >> 3] = len(rows)
        self._table = table

    def end_module(self, number: int) -> None:
        """Forget what lies between the variables of a module that is freed."""
        for start, size in self._gaps.pop(number, ()):
            self._board.unmark(start, size)
        if self._variables.pop(number, None):
            self._tell_variables()

    @property
    def untracked(self) -> int:
        """Return the number of objects that were too many to be followed."""
        return self._words[abi.Shadow.untracked >> 3]

    def row(self, number: int) -> ObjectRow:
        """Return an object by its index."""
        at = abi.Shadow.objects + number * abi.Object.SIZE
        return ObjectRow.from_buffer_copy(self._memory, at)

    def of_owner(self, owner: int) -> Iterator[ObjectRow]:
        """Yield the objects that a text's module has allocated and nobody has freed."""
        count, step = self._words[abi.Shadow.nr_objects >> 3], abi.Object.SIZE >> 3
        begin = abi.Shadow.objects >> 3
        words = self._words[begin : begin + count * step]  # the rest is untouched
        state, whose = abi.Object.state >> 3, abi.Object.owner >> 3
        owners = words[whose::step]
        for number, value in enumerate(words[state::step]):
            if value == abi.OBJECT_LIVE and owners[number] == owner:
                yield self.row(number)


def _flag(bit: int | None, otherwise: int) -> int:
    return otherwise if bit is None else 1 << bit
