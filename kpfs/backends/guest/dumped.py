# SPDX-License-Identifier: GPL-2.0-or-later
"""Dumps of the guest kernel: its memory, and where it is mapped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kpfs.backends.guest.debugged import GuestDebugged
from kpfs.base.core_file import (
    CopiedMemory,
    CoreFile,
    CoreProcessor,
    MappedRange,
    zeros,
)
from kpfs.base.data_model import LITTLE_64
from kpfs.base.elf import EM_X86_64
from kpfs.base.units import PAGE_SIZE
from kpfs.guest.emu.frozen import copied

if TYPE_CHECKING:
    from kpfs.backends.guest.root.guest_kernel import GuestKernel
    from kpfs.guest.emu.memory import Memory


def core(kernel: GuestKernel) -> CoreFile:
    """Copy a kernel as it is at this moment.  Context: control, lock held."""
    memory, debugged = kernel.guest.memory, GuestDebugged(kernel)
    pages = {
        (at + offset) // PAGE_SIZE: data[offset : offset + PAGE_SIZE]
        for at, data in copied(memory)
        for offset in range(0, len(data), PAGE_SIZE)
        if at < memory.size
    }
    processors = [
        CoreProcessor(thread.pid, debugged.registers(thread))
        for thread in debugged.threads()
        if thread.cpu >= 0
    ]
    ram = CopiedMemory(memory.size, pages, zeros)
    return CoreFile(EM_X86_64, LITTLE_64, ram, segments(memory), processors, b"")


def segments(memory: Memory) -> list[MappedRange]:
    """Return what is mapped, but for rings."""
    return [MappedRange(*each) for each in memory.mappings()]
