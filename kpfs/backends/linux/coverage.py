# SPDX-License-Identifier: GPL-2.0-or-later
"""Coverage of a Linux kernel's modules, and of the kernel's own functions.

The board stops where the kernel is about to run a module's init function, where it has
run it and frees its text, and where it frees the module.  It also stops where the
kernel begins to load a module, whose file, which has the lines, is in memory then.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from errno import EOPNOTSUPP
from typing import TYPE_CHECKING

from kpfs.base import abi, elf
from kpfs.base.errors import KernelError, MemoryFault
from kpfs.base.ktypes import FUNCTION_TYPES
from kpfs.coverage.collector import VMLINUX, Collector, CoverableImage, FileImage
from kpfs.coverage.report import FunctionRange
from kpfs.emulator.coverage import BlockCoverage
from kpfs.linux.memory.structures import View

if TYPE_CHECKING:
    from kpfs.guest.loader.line_table import LineSpan
    from kpfs.linux.board.board import Board
    from kpfs.linux.memory.modules import LoadedModule
    from kpfs.linux.running.kernel_on_board import KernelOnBoard

_LOADS = "load_module"  # has a struct load_info as its first argument
# each has the module as its first argument
_BEGINS, _INIT_ENDS, _ENDS = "do_init_module", "trim_init_extable", "free_module"
_STOPS = _BEGINS, _INIT_ENDS, _ENDS
_KEPT_FILES = 64


class SymbolImage:
    """A module or kernel that is known by its symbols alone."""

    def __init__(self, name: str, rows: Sequence[tuple[int, str]], end: int) -> None:
        """rows: address and name of each function.  end: of all of them."""
        self.name = name
        self.spans: list[LineSpan] = []
        rows = sorted(dict(reversed(rows)).items())  # the first name of an address
        ends = [*(start for start, _ in rows[1:]), end]
        self.functions = [
            FunctionRange(start, max(stop, start), symbol)
            for (start, symbol), stop in zip(rows, ends, strict=False)
        ]


class LinuxCoverage(Collector):
    """The coverage since this was made, also after a reboot.  Context: lock held."""

    def __init__(self, kernel: KernelOnBoard, *, of_kernel: bool = False) -> None:
        """KernelError(EOPNOTSUPP): this kernel does not tell of its modules."""
        super().__init__()
        self._kernel, self._of_kernel = kernel, of_kernel
        self._files: dict[str, elf.ElfFile] = {}  # by the names of modules
        self._parts: dict[int, tuple[int, int]] = {}  # struct module: core and init
        places = {name: kernel.symbols.address(name) for name in _STOPS}
        if not all(places.values()) or not kernel.structures["module"].has("kallsyms"):
            raise KernelError(EOPNOTSUPP, "this kernel does not tell of its modules")
        self._places = {**places, _LOADS: kernel.symbols.address(_LOADS)}
        kernel.follow_boards(self._board)
        self._board(kernel.machine.board)

    def _board(self, board: Board) -> None:
        """Count on a board that has just been made, or goes on."""
        kernel = self._kernel
        blocks = BlockCoverage(board.address, board.flush)
        self.begin(blocks)
        self._parts.clear()
        board.set(coverage=blocks.address)
        if self._of_kernel:
            self._cover_kernel()
        for module in kernel.modules():
            self._cover_module(module)
        calls = [(at, abi.NEVER) for at in self._places.values() if at]
        kernel.machine.stops.set(self._stopped, calls)

    def _cover_kernel(self) -> None:
        symbols = self._kernel.symbols
        start, end = symbols.address("_stext"), symbols.address("_etext")
        rows = [
            (addr, name)
            for addr, kind, name in symbols.rows()
            if kind in FUNCTION_TYPES and start <= addr < end
        ]
        self.cover(SymbolImage(VMLINUX, rows, end), start, end)

    # ---- modules
    def _loads(self, address: int) -> None:
        """Keep the file of a module that is about to be loaded."""
        kernel, layout = self._kernel, self._kernel.structures["load_info"]
        with suppress(MemoryFault):
            info = View(kernel.memory, layout, address)
            self._file(kernel.memory.read(info.word("hdr"), info.word("len")))

    def _file(self, data: bytes) -> None:
        try:
            file = elf.ElfFile(data, self._kernel.arch.elf_machine)
            section = file.section(".modinfo")
            words = file.contents(section).split(b"\0") if section else []
        except KernelError:
            return
        names = [word[5:] for word in words if word.startswith(b"name=")]
        if names:
            self._files[names[0].decode("latin-1")] = file
            for name in list(self._files)[:-_KEPT_FILES]:
                del self._files[name]

    def _stopped(self, at: int) -> None:
        kernel = self._kernel
        board, arch = kernel.machine.board, kernel.arch
        address = board.read_reg(arch.arguments[0])
        if at == self._places[_LOADS]:
            self._loads(address)
        elif at == self._places[_BEGINS]:
            for module in kernel.modules():
                if module.address == address:
                    self._cover_module(module)
        else:
            core, init = self._parts.get(address, (0, 0))
            self.end(init)
            if at == self._places[_ENDS]:
                self.end(core)
                self._parts.pop(address, None)

    def _cover_module(self, module: LoadedModule) -> None:
        image = self._image(module)
        for start, end in (module.text, module.init_text):
            if start < end:
                self.cover(image, start, end)
        self._parts[module.address] = module.text[0], module.init_text[0]

    def _image(self, module: LoadedModule) -> CoverableImage:
        rows = [
            (row.addr, row.name) for row in module.rows if row.type in FUNCTION_TYPES
        ]
        file = self._files.get(module.name)
        if file is None:
            return SymbolImage(module.name, rows, module.text[1])
        named = {name: addr for addr, name in rows}
        places: dict[int, int] = {}
        for sym in file.symbols():
            if sym.kind == elf.STT_FUNC and sym.name in named:
                if sum(name == sym.name for _, name in rows) == 1:
                    places.setdefault(sym.shndx, named[sym.name] - sym.value)
        return FileImage(module.name, lambda: file, places)
