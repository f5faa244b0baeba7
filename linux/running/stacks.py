# SPDX-License-Identifier: GPL-2.0-or-later
"""Names the functions that tasks of a stopped kernel are in, by its call frames.

Where the text says nothing more of them, each word of the stack that may be a return
address counts, as in a stack trace of Linux without an unwinder. Such a name has a
question mark, as there: it may be left from an earlier call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from kpfs.base.errors import KernelError, MemoryFault
from kpfs.base.ktypes import FUNCTION_TYPES
from kpfs.linux.memory.memory import looking
from kpfs.linux.memory.modules import AllSymbols, loaded_modules
from kpfs.linux.memory.stack import words_above
from kpfs.linux.memory.unwind import NUMBERINGS, UNKNOWN, CallerFrame, CallFrames
from kpfs.linux.memory.vmlinux import ModuleFile

if TYPE_CHECKING:
    from kpfs.linux.memory.modules import LoadedModule
    from kpfs.linux.memory.vmlinux import SymbolFile
    from kpfs.linux.running.kernel_on_board import KernelOnBoard

_DEEPEST = 64  # frames that are followed


# registers by the names of all architectures
_COUNTERS = "rip", "eip", "pc", "pswa"
_POINTERS = "rsp", "esp", "sp", "x2", "r15", "r1"


class Stacks:
    """The stacks of a kernel that stands still.  Context: its lock is held."""

    def __init__(self, kernel: KernelOnBoard) -> None:
        self._kernel, self._memory = kernel, kernel.memory
        self._numbering = NUMBERINGS.get(kernel.arch.elf_machine, UNKNOWN)
        self._read: dict[str, CallFrames] = {}  # by module

    @cached_property
    def _symbols(self) -> AllSymbols:
        kernel = self._kernel
        parts = kernel.memory, kernel.symbols, kernel.structures
        with suppress(KernelError), looking():
            return AllSymbols(kernel.symbols, loaded_modules(*parts))
        return AllSymbols(kernel.symbols, [])

    def running(self, most: int) -> list[str]:
        """Return functions of the task that runs, the innermost first.

        most: of them.  Context: the machine has stopped for good, in the kernel.
        """
        board, arch = self._kernel.machine.board, self._kernel.arch
        registers = {
            "pc": board.read_reg(arch.counter),
            "sp": board.read_reg(arch.stack_pointer),
        }
        for name in self._numbering.names:
            with suppress(KeyError):
                registers[name] = arch.debugged(board, name)
        return self._named(self._places(registers, is_call=False), most)

    def of_sleeper(self, registers: Mapping[str, int], most: int) -> list[str]:
        """Return likewise those of a task that has no processor.

        registers: those that it has left, by LinuxArch.asleep().
        """
        return self._named(self._places(registers, is_call=True), most)

    def _places(
        self, registers: Mapping[str, int], *, is_call: bool
    ) -> Iterator[tuple[int, bool]]:
        """Yield places in the text, and whether each is but a guess.

        is_call: the first function has called another one.
        """
        counter, stack = (
            next(registers[name] for name in names if name in registers)
            for names in (_COUNTERS, _POINTERS)
        )
        yield counter, False
        names = enumerate(self._numbering.names)
        left = {number: registers[name] for number, name in names if name in registers}
        for _ in range(_DEEPEST):
            try:
                caller = self._caller(left, is_call=is_call)
            except (KeyError, MemoryFault):
                break
            if caller is None:
                return
            left, is_call = caller.registers, not caller.is_interrupted
            yield left[self._numbering.counter], False
            stack = left[self._numbering.stack]
        for word in words_above(self._memory, stack):
            yield word, True

    def _caller(
        self, registers: Mapping[int, int], *, is_call: bool
    ) -> CallerFrame | None:
        """Return a function's caller.  Raises KeyError, MemoryFault."""
        counter, read = registers[self._numbering.counter] - is_call, self._memory.word
        frames = self._frames(self._symbols.module_at(counter))
        try:
            return frames.caller(registers, read, is_call=is_call)
        except KeyError:
            link = self._numbering.link
            if is_call or link not in registers:
                raise
            # a function without a frame, which has called none
            found = {**registers, self._numbering.counter: registers[link]}
            return CallerFrame(found, is_interrupted=False)

    def _frames(self, module: LoadedModule | None) -> CallFrames:
        name = module.name if module else ""
        if name not in self._read:
            file: SymbolFile = self._kernel.vmlinux
            if module:
                parts = self._kernel.structures, self._kernel.arch.elf_machine
                file = ModuleFile(self._memory, module, *parts)
            made = CallFrames(file.call_frames, self._memory.model, self._numbering)
            self._read[name] = made
        return self._read[name]

    def _named(self, places: Iterable[tuple[int, bool]], most: int) -> list[str]:
        found: dict[str, str] = {}
        for addr, is_guess in places:
            symbol = self._symbols.symbol_at(addr) if addr else None
            # nothing returns to where a function begins
            begins = symbol is None or (addr == symbol.addr and is_guess)
            if symbol and not begins and symbol.type in FUNCTION_TYPES:
                name = self._symbols.name_of(addr)
                found.setdefault(name, f"{'? ' * is_guess}{name}")
            if len(found) == most:
                break
        return [*found.values()]
