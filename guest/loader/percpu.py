# SPDX-License-Identifier: GPL-2.0-or-later
"""Per-CPU variables of modules: room for them is kept in every CPU's area.

A variable's address is that of its copy in the first CPU's area; the copy of CPU n is
percpu_size * n behind it, as for the kernel's own.
"""

from __future__ import annotations

import errno

from kpfs.base import abi
from kpfs.base.errors import KernelError
from kpfs.base.units import PAGE_SIZE
from kpfs.guest.emu.memory import Memory


class ModulePerCpu:
    """The allocator of the part of the per-CPU areas that is reserved for modules.

    Context: control.  Kernel: pcpu_reserved_chunk, percpu_modalloc()
    """

    def __init__(
        self, memory: Memory, reserved: range, percpu_size: int, nr_cpus: int
    ) -> None:
        """reserved: of the first CPU's area; they are percpu_size apart."""
        self._memory = memory
        self._start, self._end = reserved.start, reserved.stop
        self._offsets = range(0, percpu_size * nr_cpus, percpu_size)
        self._used: dict[int, int] = {}  # address to size, by address

    def alloc(self, size: int, align: int) -> int:
        """Return zeroed room on every CPU; ENOMEM. Kernel: percpu_modalloc()"""
        align = min(max(align, 1), PAGE_SIZE)
        at = self._start
        for used, length in self._used.items():
            at = (at + align - 1) & -align
            if at + size <= used:
                break
            at = used + length
        at = (at + align - 1) & -align
        if at + size > self._end:
            raise KernelError(errno.ENOMEM, "no room for per-CPU variables")
        self._used[at] = size
        self._used = dict(sorted(self._used.items()))
        self.write(at, bytes(size))
        return at

    def free(self, addr: int) -> None:
        """Kernel: percpu_modfree()"""
        del self._used[addr]

    def serve(self, number: int, first: int, second: int) -> int:
        """Serve modules that allocate and free while they run: kpfs/control.h."""
        if number == abi.CTL_PERCPU_ALLOC:
            return self.alloc(first, second)
        self.free(first)
        return 0

    def write(self, addr: int, data: bytes) -> None:
        """Write the same bytes on every CPU. Kernel: percpu_modcopy()"""
        for offset in self._offsets:
            self._memory.write(addr + offset, data)
