# SPDX-License-Identifier: GPL-2.0-or-later
"""The numbers of a kernel's system calls, by its own table and symbols."""

from __future__ import annotations

from kpfs.base.errors import MemoryFault
from kpfs.linux.memory.memory import KernelMemory
from kpfs.linux.memory.symbols import CoreSymbols

ABSENT = "ni_syscall"
# names in <asm/unistd.h> that differ from the function's
NAMES = {
    "newstat": "stat",
    "newfstat": "fstat",
    "newlstat": "lstat",
    "newuname": "uname",
    "umount": "umount2",
    "sendfile64": "sendfile",
}


def call_numbers(
    memory: KernelMemory,
    symbols: CoreSymbols,
    table: tuple[int, int],
    prefix: str,
    first: int = 0,
) -> dict[str, int]:
    """Return the number of each system call by name; {} if the kernel has no table.

    table: its address and size.  prefix: of the functions, LinuxArch.syscall_prefix.
    first: the first number.

    Context: the machine's lock is held.
    """
    start, size = table
    try:
        words = memory.read(start, size & -memory.model.long)
    except MemoryFault:
        return {}
    names = {
        address: name.removeprefix(prefix)
        for address, name in symbols.beginning_with(prefix)
        if name != prefix + ABSENT
    }
    numbers: dict[str, int] = {}
    rows = memory.model.struct("L").iter_unpack(words)
    for number, (address,) in enumerate(rows, first):
        name = names.get(address, "")
        if name:
            numbers.setdefault(NAMES.get(name, name), number)
    return numbers
