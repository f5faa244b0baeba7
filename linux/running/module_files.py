# SPDX-License-Identifier: GPL-2.0-or-later
"""The files of a Linux kernel's modules, which are in its memory as it loads them.

They have the lines of functions, and the places and sizes of variables. A command may
load one module after another under the same name: the second file of the name x that
is another one is called x#2.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

from kpfs.base import abi, elf
from kpfs.base.errors import KernelError, MemoryFault
from kpfs.linux.memory.stack_variables import Frame
from kpfs.linux.memory.stack_variables import frames as read_frames
from kpfs.linux.memory.structures import View

if TYPE_CHECKING:
    from kpfs.linux.memory.modules import LoadedModule
    from kpfs.linux.running.kernel_on_board import KernelOnBoard

_LOADS = "load_module"  # has a struct load_info as its first argument
_KEPT_FILES = 64
_NUMBER = "#"  # follows the name of a module that several files have
_VARIABLES = (".data", ".bss", ".data..read_mostly")


class ModuleFiles:
    """The files of the modules that were loaded last.  Context: lock held."""

    def __init__(self, kernel: KernelOnBoard, *, frames: bool = False) -> None:
        """frames: read which variables functions have on the stack, too."""
        self._kernel = kernel
        self.by_name: dict[str, elf.ElfFile] = {}  # the last one is the newest
        self._loading: dict[int, str] = {}  # names, by the stacks of tasks
        self._reads_frames = frames
        self._frames: dict[str, list[Frame]] = {}
        self._loads = kernel.symbols.address(_LOADS)

    def follow(self) -> None:
        """Keep the files of modules that this machine loads from now on."""
        calls = [(self._loads, abi.NEVER)] if self._loads else []
        self._kernel.machine.stops.set(self._stopped, calls)

    def _stopped(self, _at: int) -> None:
        """Keep the file of a module that is about to be loaded."""
        kernel, layout = self._kernel, self._kernel.structures["load_info"]
        address = kernel.machine.board.read_reg(kernel.arch.arguments[0])
        with suppress(MemoryFault):
            info = View(kernel.memory, layout, address)
            name = self.keep(kernel.memory.read(info.word("hdr"), info.word("len")))
            self._loading[self._stack()] = name

    def _stack(self) -> int:
        kernel = self._kernel
        pointer = kernel.machine.board.read_reg(kernel.arch.stack_pointer)
        return pointer // abi.STACK_SIZE

    def name_of(self, module: LoadedModule) -> str:
        """Return what the file is called of which the running task makes a module."""
        name = self._loading.get(self._stack(), module.name)
        return name if _without_number(name) == module.name else module.name

    def keep(self, data: bytes) -> str:
        """Keep a file, if it is that of a module. Return its name, "" if it is none."""
        try:
            file = elf.ElfFile(data, self._kernel.arch.elf_machine)
            section = file.section(".modinfo")
            words = file.contents(section).split(b"\0") if section else []
        except KernelError:
            return ""
        names = [word[5:] for word in words if word.startswith(b"name=")]
        if not names:
            return ""
        name = self._name_of_file(names[0].decode("latin-1"), data)
        file = self.by_name.pop(name, file)
        self.by_name[name] = file
        if self._reads_frames:  # here, before runs of a search part
            self._frames[name] = read_frames(file)
        for oldest in list(self.by_name)[:-_KEPT_FILES]:
            del self.by_name[oldest]
        return name

    def _name_of_file(self, name: str, data: bytes) -> str:
        for number in count(1):
            own = name if number == 1 else f"{name}{_NUMBER}{number}"
            if own not in self.by_name or self.by_name[own].data == data:
                return own
        raise AssertionError

    def sections(
        self, module: LoadedModule, file: elf.ElfFile, kind: int
    ) -> dict[int, int]:
        """Return where sections of a module's file lie, by symbols of one kind."""
        named = {row.name: row.addr for row in module.rows}
        counts: dict[str, int] = {}
        for row in module.rows:
            counts[row.name] = counts.get(row.name, 0) + 1
        places: dict[int, int] = {}
        for sym in file.symbols():
            if sym.kind == kind and counts.get(sym.name) == 1:
                places.setdefault(sym.shndx, named[sym.name] - sym.value)
        return places

    def frames(self, module: LoadedModule, name: str) -> list[Frame]:
        """Return functions with variables on the stack, at their addresses.

        name: of its file.
        """
        file = self.by_name.get(name)
        if file is None:
            return []
        places = self.sections(module, file, elf.STT_FUNC)
        return [
            row._replace(entry=places[row.section] + row.entry)
            for row in self._frames.get(name, ())
            if row.section in places
        ]

    def variables(self, module: LoadedModule, name: str) -> list[tuple[int, int]]:
        """Return begin and end of a module's variables, as far as they are known.

        name: of its file.
        """
        file = self.by_name.get(name)
        if file is None:
            return []
        places = self.sections(module, file, elf.STT_OBJECT)
        wanted = {
            number: place
            for number, place in places.items()
            if file.sections[number].name in _VARIABLES
        }
        found: dict[int, int] = {}  # ends
        for sym in file.symbols():
            if sym.kind == elf.STT_OBJECT and sym.size and sym.shndx in wanted:
                begin = wanted[sym.shndx] + sym.value
                found[begin] = max(found.get(begin, 0), begin + sym.size)
        return sorted(found.items())


def _without_number(name: str) -> str:
    return name.partition(_NUMBER)[0]
