# SPDX-License-Identifier: GPL-2.0-or-later
"""The engine's own pages in the guest, and its code.  Context: control."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KAddr
from kpfs.engine.machine import RuntimeConfig
from kpfs.guest.emu.memory import KERNEL_DATA, KERNEL_TEXT, Memory
from kpfs.guest.loader.kallsyms import Kallsyms
from kpfs.guest.loader.objects import LoadedObject, load_object

PREFIX = "kp_"  # begins names that Linux does not have


class EngineArea:
    """Implements kpfs.engine.machine.Area."""

    def __init__(self, memory: Memory) -> None:
        self._area = memory.area
        self._near, self._far = memory.near, memory.far
        # text from which calls are made with a struct pt_regs on top of the stack
        self.regs_frames: list[range] = []

    def alloc_text(self, size: int, *, has_regs: bool = False) -> KAddr:
        addr = self._area.alloc(size, KERNEL_TEXT)
        if has_regs:
            self.regs_frames.append(range(addr, addr + size))
        return KAddr(addr)

    def alloc_data(self, size: int) -> KAddr:
        return KAddr(self._area.alloc(size, KERNEL_DATA))

    def alloc_ring(self, size: int, *, near: bool) -> tuple[KAddr, bool]:
        if near:
            with suppress(KernelError):
                return KAddr(self._near.alloc(size)), True
        return KAddr(self._far.alloc(size)), False

    def free_ring(self, addr: int) -> None:
        (self._near if self._near.has(addr) else self._far).free(addr)


class RuntimeImage:
    """Implements kpfs.engine.machine.RuntimeImage."""

    def __init__(
        self,
        memory: Memory,
        kallsyms: Kallsyms,
        read: Callable[[], bytes],
        address_of: Callable[[str], int | None],
        config: RuntimeConfig,
    ) -> None:
        """read: gives the file; address_of: addresses of the kernel's symbols."""
        self._memory = memory
        self._kallsyms = kallsyms
        self.read = read  # another one has to be set before the first use
        self._address_of = address_of
        self.config = config
        self.loaded: LoadedObject | None = None

    def symbols(self) -> dict[str, KAddr]:
        if self.loaded is None:
            self.loaded = load_object(self._memory, self.read(), self._address_of)
            self._kallsyms.set_runtime(self.loaded.functions(PREFIX))
        return {name: KAddr(addr) for name, addr in self.loaded.symbols.items()}
