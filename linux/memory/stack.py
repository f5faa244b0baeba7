# SPDX-License-Identifier: GPL-2.0-or-later
"""Names the functions that a stopped kernel was in, as far as its stack tells.

Each word of the stack that may be a return address counts, as in a stack trace of Linux
without an unwinder: some may be left from earlier calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kpfs.base.errors import MemoryFault
from kpfs.base.units import WORD
from kpfs.linux.board.board import Board
from kpfs.linux.memory.memory import KernelMemory, LiveMemory
from kpfs.linux.memory.symbols import CoreSymbols

STACK_SIZE = 1 << 14  # bytes, and so aligned
_CODE = "tTwW"  # kinds of symbols
# registers by the names of all architectures
_COUNTERS, _POINTERS = ("rip", "pc", "pswa"), ("rsp", "sp", "x2", "r15", "r1")


def functions(board: Board, symbols: CoreSymbols, most: int) -> list[str]:
    """Return the names of functions with offsets, the innermost first.

    Context: the machine has stopped for good, in the kernel.
    """
    at, arch = board.read_reg(board.arch.stack_pointer), board.arch
    words = [board.read_reg(arch.counter), *_stack(LiveMemory(board), at)]
    return _named(words, symbols)[:most]


def functions_of_sleeper(
    memory: KernelMemory, symbols: CoreSymbols, registers: Mapping[str, int], most: int
) -> list[str]:
    """Return the same of a task that has no processor.

    registers: those that it has left, by LinuxArch.asleep().  Context: lock held.
    """
    counter, stack = (
        next(registers[name] for name in names if name in registers)
        for names in (_COUNTERS, _POINTERS)
    )
    return _named([counter, *_stack(memory, stack)], symbols)[:most]


def _stack(memory: KernelMemory, at: int) -> list[int]:
    """Return the words of a stack from an address on, [] if it is none."""
    try:
        raw = memory.read(at, -at % STACK_SIZE)
    except MemoryFault:  # it is another stack, or none
        raw = b""
    words = memory.model.struct("L").iter_unpack(raw[: len(raw) & -WORD])
    return [word for (word,) in words]


def _named(words: Iterable[int], symbols: CoreSymbols) -> list[str]:
    found: list[str] = []
    for word in words:
        if (name := _name(symbols, word)) and name not in found:
            found.append(name)
    return found


def _name(symbols: CoreSymbols, word: int) -> str:
    symbol = symbols.symbol_at(word) if word else None
    if symbol is None or symbol.type not in _CODE or word == symbol.addr:
        return ""  # nothing returns to where a function begins
    return f"{symbol.name}+{word - symbol.addr:#x}"
