# SPDX-License-Identifier: GPL-2.0-or-later
"""Coverage of guest modules, and of the guest kernel itself."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from kpfs.base import elf
from kpfs.coverage.collector import VMLINUX, Collector, FileImage
from kpfs.emulator.coverage import BlockCoverage

if TYPE_CHECKING:
    from kpfs.backends.guest.root.guest_kernel import GuestKernel
    from kpfs.fs.node import Dir
    from kpfs.guest.loader.layout import ModulePages
    from kpfs.guest.loader.modules import Module


class GuestCoverage(Collector):
    """The coverage of a guest kernel since this was made, also after a reboot.

    Implements guest.loader.modules.TextFollower.  Context: control, lock held.
    """

    def __init__(self, *, of_kernel: bool = False) -> None:
        """of_kernel: the guest kernel's own functions, too."""
        super().__init__()
        self._of_kernel = of_kernel
        self._modules: dict[int, Module] = {}  # by the address of their text

    def follow(self, kernel: GuestKernel, _root: Dir | None = None) -> None:
        """Count in a kernel from now on, in modules that are loaded, too."""
        guest = kernel.guest
        blocks = BlockCoverage(guest.cpus.engine, guest.cpus.drop_all)
        self.begin(blocks)
        self._modules.clear()
        guest.cpus.follow_blocks(blocks.left)
        if self._of_kernel:
            read = partial(_vmlinux, kernel)
            start, end = guest.needed("_stext"), guest.needed("_etext")
            self.cover(FileImage(VMLINUX, read, {}), start, end)
        guest.modules.text_follower = self
        for module in guest.modules:
            self.placed(module)

    def placed(self, module: Module) -> None:
        # linked, its contents would no longer fit its relocations
        read = partial(elf.ElfFile, module.file.data)
        image = FileImage(module.name, read, dict(module.layout.places))
        for start, end in _texts(module):
            self.cover(image, start, end)
            self._modules[start] = module

    def freed(self, pages: ModulePages) -> None:
        self._modules.pop(pages.base, None)
        self.end(pages.base)

    def changed(self, modules: Iterable[Module]) -> None:
        there = {start: module for module in modules for start, _ in _texts(module)}
        for address, module in list(self._modules.items()):
            if there.get(address) is not module:
                del self._modules[address]
                self.end(address)
        for module in dict.fromkeys(there.values()):
            if module.layout.core.base not in self._modules:
                self.placed(module)


def _texts(module: Module) -> list[tuple[int, int]]:
    parts = module.layout.core, module.layout.init
    return [(part.base, part.base + part.text_size) for part in parts if part.text_size]


def _vmlinux(kernel: GuestKernel) -> elf.ElfFile:
    return elf.ElfFile(kernel.guest.vmlinux(kernel.config.on("DEBUG_INFO")))
