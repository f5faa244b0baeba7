# SPDX-License-Identifier: GPL-2.0-or-later
"""Coverage of a Linux kernel's modules, and of the kernel's own functions.

The board stops where the kernel is about to run a module's init function, where it has
run it and frees its text, and where it frees the module.
"""

from __future__ import annotations

from collections.abc import Sequence
from errno import EOPNOTSUPP
from typing import TYPE_CHECKING

from kpfs.base import abi, elf
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import FUNCTION_TYPES
from kpfs.coverage.collector import VMLINUX, Collector, CoverableImage, FileImage
from kpfs.coverage.report import FunctionRange
from kpfs.emulator.coverage import BlockCoverage
from kpfs.linux.running.module_files import ModuleFiles

if TYPE_CHECKING:
    from kpfs.guest.loader.line_table import LineSpan
    from kpfs.linux.board.board import Board
    from kpfs.linux.memory.modules import LoadedModule
    from kpfs.linux.running.kernel_on_board import KernelOnBoard

# each has the module as its first argument
_BEGINS, _INIT_ENDS, _ENDS = "do_init_module", "trim_init_extable", "free_module"
_STOPS = _BEGINS, _INIT_ENDS, _ENDS


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
        self._files = ModuleFiles(kernel)
        self._parts: dict[int, tuple[int, int]] = {}  # struct module: core and init
        self._counted: tuple[Board, BlockCoverage] | None = None
        self._places = {name: kernel.symbols.address(name) for name in _STOPS}
        tells = kernel.structures["module"].has("kallsyms")
        if not all(self._places.values()) or not tells:
            raise KernelError(EOPNOTSUPP, "this kernel does not tell of its modules")
        kernel.follow_boards(self._board)
        self._board(kernel.machine.board)

    def _board(self, board: Board) -> None:
        """Count on a board that has just been made, or goes on.

        One that is told of twice keeps its records of blocks, to which its hooks lead.
        """
        kernel = self._kernel
        if self._counted is None or self._counted[0] is not board:
            self._counted = board, BlockCoverage(board.address, board.flush)
        blocks = self._counted[1]
        self.begin(blocks)
        self._parts.clear()
        board.set(coverage=blocks.address)
        if self._of_kernel:
            self._cover_kernel()
        for module in kernel.modules():
            self._cover_module(module)
        self._files.follow()
        calls = [(at, abi.NEVER) for at in self._places.values()]
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
    def _stopped(self, at: int) -> None:
        kernel = self._kernel
        board, arch = kernel.machine.board, kernel.arch
        address = board.read_reg(arch.arguments[0])
        if at == self._places[_BEGINS]:
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
        """Return functions and lines of a module, as far as they are known."""
        file = self._files.by_name.get(self._files.name_of(module))
        if file is not None:
            places = self._files.sections(module, file, elf.STT_FUNC)
            return FileImage(module.name, lambda: file, places)
        rows = [
            (row.addr, row.name) for row in module.rows if row.type in FUNCTION_TYPES
        ]
        return SymbolImage(module.name, rows, module.text[1])
