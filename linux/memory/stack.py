# SPDX-License-Identifier: GPL-2.0-or-later
"""Names the functions that a stopped kernel was in, as far as its stack tells.

Each word of the stack that may be a return address counts, as in a stack trace of Linux
without an unwinder: some may be left from earlier calls.
"""

from __future__ import annotations

from kpfs.base.errors import MemoryFault
from kpfs.base.units import WORD
from kpfs.linux.board.board import Board
from kpfs.linux.memory.memory import LiveMemory
from kpfs.linux.memory.symbols import CoreSymbols

STACK_SIZE = 1 << 14  # bytes, and so aligned
_CODE = "tTwW"  # kinds of symbols


def functions(board: Board, symbols: CoreSymbols, most: int) -> list[str]:
    """Return the names of functions with offsets, the innermost first.

    Context: the machine has stopped for good, in the kernel.
    """
    memory, arch = LiveMemory(board), board.arch
    at = board.read_reg(arch.stack_pointer)
    words = [board.read_reg(arch.counter)]
    try:
        raw = memory.read(at, -at % STACK_SIZE)
    except MemoryFault:  # it is another stack, or none
        raw = b""
    for start in range(0, len(raw) - WORD + 1, WORD):
        words.append(int.from_bytes(raw[start : start + WORD], "little"))
    found: list[str] = []
    for word in words:
        if (name := _name(symbols, word)) and name not in found:
            found.append(name)
    return found[:most]


def _name(symbols: CoreSymbols, word: int) -> str:
    symbol = symbols.symbol_at(word) if word >> 63 else None
    if symbol is None or symbol.type not in _CODE or word == symbol.addr:
        return ""  # nothing returns to where a function begins
    return f"{symbol.name}+{word - symbol.addr:#x}"
