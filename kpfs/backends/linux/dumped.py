# SPDX-License-Identifier: GPL-2.0-or-later
"""Dumps of a Linux kernel: its memory, where it is mapped, and its VMCOREINFO."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from kpfs.backends.linux.debugged import LinuxDebugged
from kpfs.base.core_file import CopiedMemory, CoreFile, CoreProcessor, MappedRange
from kpfs.base.errors import MemoryFault
from kpfs.base.units import PAGE_SIZE, WORD
from kpfs.linux.board.board import written_pages
from kpfs.linux.memory.dmesg import VMCOREINFO

if TYPE_CHECKING:
    from kpfs.linux.running.linux_kernel import LinuxKernel

MAX_VMCOREINFO = 1 << 16
_MOST_RANGES, _NOWHERE = 3000, 0xFFFF_FFFF  # in dumps of 32 bits
_NUMBER = re.compile(rb"^NUMBER\((\w+)\)=(-?(?:0x)?[0-9a-f]+)$", re.M)
_IDENTITY = re.compile(rb"^IDENTITYBASE=([0-9a-f]+)$", re.M)  # s390x since 6.10


def vmcoreinfo(kernel: LinuxKernel) -> bytes:
    """Return what the kernel says of itself for dumps; b"" if it does not.

    Context: lock held.
    """
    at, memory = kernel.symbols.address, kernel.memory
    try:
        if not at("vmcoreinfo_data"):  # no symbols of data
            return memory.page_that_begins(VMCOREINFO).split(b"\0")[0]
        size = memory.word(at("vmcoreinfo_size"))
        if not 0 < size <= MAX_VMCOREINFO:
            return b""
        return memory.read(memory.word(at("vmcoreinfo_data")), size)
    except MemoryFault:
        return b""


def core(kernel: LinuxKernel) -> CoreFile:
    """Copy a kernel, alive or dead, as it is at this moment.  Context: lock held."""
    debugged, board = LinuxDebugged(kernel), kernel.machine.board
    processors = [
        CoreProcessor(thread.pid, registers)
        for thread in debugged.threads()
        if thread.cpu >= 0 and (registers := debugged.registers(thread))
    ]
    pages = dict(written_pages(board.ram))
    ram = CopiedMemory(len(board.ram), pages, kernel.read_saved)
    info = vmcoreinfo(kernel)
    machine, model = kernel.arch.elf_machine, kernel.arch.model
    return CoreFile(machine, model, ram, _segments(kernel, info), processors, info)


def _segments(kernel: LinuxKernel, info: bytes) -> list[MappedRange]:
    """Return the kernel's image, and all memory where the kernel has mapped it."""
    board, address = kernel.machine.board, kernel.symbols.address
    size, translate = len(board.ram), board.translate
    found = []
    start, end = address("_stext") & -4096, address("_end")
    physical = translate(start) if start else size
    if physical < size and start < end:
        found.append(MappedRange(start, physical, min(end - start, size - physical)))
    linear = _linear(kernel, info)
    if kernel.arch.model.long == WORD:
        return [*found, MappedRange(linear, 0, size)]
    found += islice(_mapped(translate, linear, size), _MOST_RANGES)
    low = found[0].size
    if low < size:  # behind it the kernel maps what it just uses
        found.append(MappedRange(_NOWHERE, low, size - low))
    return found


def _mapped(
    translate: Callable[[int], int], start: int, size: int
) -> Iterator[MappedRange]:
    """Yield what page tables of 32 bits map of so much memory, from an address on."""
    first, before, length = 0, 0, 0
    for at in range(start, 1 << 32, PAGE_SIZE):
        physical = translate(at)
        if length and physical == before + length:
            length += PAGE_SIZE
            continue
        if length:
            yield MappedRange(first, before, length)
        is_there = physical < size
        first, before, length = at, physical, PAGE_SIZE * is_there
    if length:
        yield MappedRange(first, before, length)


def _linear(kernel: LinuxKernel, info: bytes) -> int:
    """Return the virtual address of all memory, whose physical address is 0."""
    numbers = {name: int(value, 0) for name, value in _NUMBER.findall(info)}
    if b"PAGE_OFFSET" in numbers:  # riscv64
        offset, base = numbers[b"PAGE_OFFSET"], numbers.get(b"phys_ram_base", 0)
    elif b"VA_BITS" in numbers:  # arm64
        offset, base = -1 << numbers[b"VA_BITS"], numbers.get(b"PHYS_OFFSET", 0)
    elif found := _IDENTITY.search(info):
        offset, base = int(found[1], 16), 0
    else:
        at, base = kernel.symbols.address("page_offset_base"), 0  # x86-64
        offset = kernel.memory.word(at) if at else kernel.arch.page_offset
    return (offset - base) & (1 << 8 * kernel.arch.model.long) - 1
