# SPDX-License-Identifier: GPL-2.0-or-later
"""The ftrace sites and trampolines of a kernel, read from its memory.

Kernel: struct ftrace_page, which has had this form since 5.10, dyn_ftrace
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from operator import lt
from typing import NamedTuple

from kpfs.linux.memory.memory import KernelMemory, OneLook
from kpfs.linux.memory.structures import Reader
from kpfs.linux.memory.symbols import Addresses

_PAGE = "LLii"  # next, records, their number, order
_RECORD = "LL"  # address, flags; more behind them on some architectures


MAX_OPS = 1 << 12
MAX_SIZE = 1 << 16  # bytes of a trampoline


class Trampoline(NamedTuple):
    """A copy of the text that ftrace calls, for one that is called by it."""

    start: int
    end: int
    origin: str  # the symbol of what it is a copy of


class Trampolines(Reader):
    """Reads which there are, on x86-64.  Kernel: create_trampoline()"""

    needs = "ftrace_ops", "trampoline_size"

    def __iter__(self) -> Iterator[Trampoline]:
        return islice(self._rows(), MAX_OPS)

    def _rows(self) -> Iterator[Trampoline]:
        address = self._symbols.address
        end = address("ftrace_list_end")
        at = self._memory.word(address("ftrace_ops_list"))
        with_all = self._structures.values.get("FTRACE_OPS_FL_SAVE_REGS", 0)
        while at not in (0, end):
            ops = self._view("ftrace_ops", at)
            start, size = ops.word("trampoline"), ops.word("trampoline_size")
            if start and 0 < size <= MAX_SIZE:
                name = "regs_caller" if ops.word("flags") & with_all else "caller"
                yield Trampoline(start, start + size, f"ftrace_{name}")
            at = ops.word("next")


def ftrace_sites(memory: KernelMemory, symbols: Addresses, size: int) -> Iterator[int]:
    """Return the addresses of all sites, also of modules; raises MemoryFault.

    size: bytes of a struct dyn_ftrace; 0: unknown.
    """
    memory = OneLook(memory)
    head = memory.model.struct(_PAGE)
    letter, long = memory.model.letter, memory.model.long
    page = memory.word(symbols.address("ftrace_pages_start"))
    while page:
        page, records, count, _ = head.unpack(memory.read(page, head.size))
        size = size or _record_size(memory, records, count)
        yield from memory.model.array(letter, memory.read(records, count * size))[
            :: size // long
        ]


def _record_size(memory: KernelMemory, records: int, count: int) -> int:
    """Return the bytes of a record: their addresses rise."""
    letter, long = memory.model.letter, memory.model.long
    least = memory.model.struct(_RECORD).size
    for size in least, least + long:  # the last one with a word of the architecture
        found = memory.model.array(letter, memory.read(records, count * size))
        addresses = found[:: size // long]
        if all(map(lt, addresses, addresses[1:])):
            return size
    return least


def without_calls(code: bytes, start: int, sites: Iterator[int], nop: bytes) -> bytes:
    """Return the text with a nop at each site."""
    text, end = bytearray(code), start + len(code)
    for site in sites:
        if start <= site <= end - len(nop):
            text[site - start : site - start + len(nop)] = nop
    return bytes(text)
