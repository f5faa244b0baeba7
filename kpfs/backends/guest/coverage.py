# SPDX-License-Identifier: GPL-2.0-or-later
"""Coverage of guest modules, and of the guest kernel itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, partial
from typing import TYPE_CHECKING

from kpfs.coverage.report import Function, Report
from kpfs.guest.emu.coverage import BlockCoverage, CoveredText
from kpfs.guest.loader import elf
from kpfs.guest.loader.line_table import Span, spans

if TYPE_CHECKING:
    from kpfs.fs.node import Dir
    from kpfs.guest.loader.layout import ModulePages
    from kpfs.guest.loader.modules import Module
    from kpfs.root.guest_kernel import GuestKernel

VMLINUX = "vmlinux"
_ALIASES = ("init_module", "cleanup_module")  # of the functions that a module names


class _Image:
    """Functions and lines of a module, or of the kernel, where they are in memory."""

    def __init__(
        self, name: str, read: Callable[[], elf.ElfFile], places: dict[int, int]
    ) -> None:
        """read: returns its file, with debug information if there is any."""
        self.name, self._read, self._places = name, read, places

    @cached_property
    def functions(self) -> list[Function]:
        is_placed = self._file.type == elf.ET_REL
        found: dict[int, Function] = {}
        for sym in self._file.symbols():
            base = self._places.get(sym.shndx) if is_placed else 0
            if sym.kind == elf.STT_FUNC and sym.shndx and base is not None:
                start = base + sym.value
                if start not in found or found[start].symbol in _ALIASES:
                    found[start] = Function(start, start + sym.size, sym.name)
        return list(found.values())

    @cached_property
    def spans(self) -> list[Span]:
        return spans(self._file, self._places)

    @cached_property
    def _file(self) -> elf.ElfFile:
        return self._read()

    def report(self, text: CoveredText) -> Report:
        """Return what was reached of a part of the image's text."""
        report, start, end = Report(), text.start, text.end
        report.add_text(
            self.name,
            [f for f in self.functions if start <= f.start < end],
            [s for s in self.spans if start <= s.start < end],
            text.runs(),
        )
        return report


class GuestCoverage:
    """What was reached since then, also after a reboot.

    Implements guest.loader.modules.TextFollower.  Context: control, lock held.
    """

    def __init__(self, *, of_kernel: bool = False) -> None:
        """of_kernel: the guest kernel's own functions, too."""
        self._of_kernel = of_kernel
        self._gone = Report()
        self._texts: dict[int, tuple[_Image, CoveredText]] = {}  # by address
        self._modules: dict[int, Module] = {}

    def follow(self, kernel: GuestKernel, _root: Dir | None = None) -> None:
        """Count in a kernel from now on, in modules that are loaded, too."""
        for address in list(self._texts):
            self._end(address)
        guest = kernel.guest
        self._blocks = BlockCoverage(guest.cpus.engine, guest.cpus.drop_all)
        guest.cpus.follow_blocks(self._blocks.left)
        if self._of_kernel:
            read = partial(_vmlinux, kernel)
            start, end = guest.needed("_stext"), guest.needed("_etext")
            self._cover(_Image(VMLINUX, read, {}), start, end)
        guest.modules.text_follower = self
        for module in guest.modules:
            self.placed(module)

    def report(self) -> Report:
        """Return what was reached up to now."""
        report = Report()
        report.add(self._gone)
        for image, text in self._texts.values():
            report.add(image.report(text))
        return report

    # ---- modules
    def placed(self, module: Module) -> None:
        # linked, its contents would no longer fit its relocations
        read = partial(elf.ElfFile, module.file.data)
        image = _Image(module.name, read, dict(module.layout.places))
        for part in (module.layout.core, module.layout.init):
            if part.text_size:
                self._cover(image, part.base, part.base + part.text_size)
                self._modules[part.base] = module

    def freed(self, pages: ModulePages) -> None:
        if pages.base in self._texts:
            self._end(pages.base)

    def changed(self, modules: Iterable[Module]) -> None:
        there = {
            part.base: module
            for module in modules
            for part in (module.layout.core, module.layout.init)
            if part.text_size
        }
        for address, module in list(self._modules.items()):
            if there.get(address) is not module:
                self._end(address)
        for module in dict.fromkeys(there.values()):
            if module.layout.core.base not in self._modules:
                self.placed(module)

    def _cover(self, image: _Image, start: int, end: int) -> None:
        self._texts[start] = image, self._blocks.cover(start, end)

    def _end(self, address: int) -> None:
        image, text = self._texts.pop(address)
        self._modules.pop(address, None)
        self._blocks.end(text)
        self._gone.add(image.report(text))


def _vmlinux(kernel: GuestKernel) -> elf.ElfFile:
    return elf.ElfFile(kernel.guest.vmlinux(kernel.config.on("DEBUG_INFO")))
