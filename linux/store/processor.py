# SPDX-License-Identifier: GPL-2.0-or-later
"""The state of one processor of a board, as an image keeps it."""

from __future__ import annotations

from typing import NamedTuple

from kpfs.base import abi
from kpfs.linux.arch.arch import LinuxArch, SavedRegisters, fits
from kpfs.linux.board.board import Board

_STATES = range(abi.CPU_OFF + 1)


class Processor(NamedTuple):
    """The registers, and what the board itself knows of a processor."""

    registers: dict[str, int]
    tables: dict[str, list[int]]
    words: dict[str, int]
    arrays: dict[str, list[int]]
    mode: int  # abi.MODE_*

    def saved(self) -> SavedRegisters:
        return SavedRegisters(self.registers, self.tables, self.mode)


def save(board: Board, number: int) -> Processor:
    """Return the state of a processor. Context: the board continues from this one."""
    board.select(number)
    arch = board.arch
    values, tables, mode = arch.save(board)
    words = {
        name: board.get_cpu(number, arch.cpu_field(name)) for name in arch.kept_of_cpu
    }
    arrays = {}
    for name, count in arch.kept_arrays.items():
        first = board.cpu_word(number, arch.cpu_field(name))
        arrays[name] = list(board.words[first : first + count])
    return Processor(values, tables, words, arrays, mode)


def load(board: Board, number: int, processor: Processor) -> None:
    """Put a processor into the state that was saved."""
    board.select(number)
    board.arch.load(board, processor.saved())
    board.set_cpu(number, **processor.words)
    for name, saved in processor.arrays.items():
        first = board.cpu_word(number, board.arch.cpu_field(name))
        for place, value in enumerate(saved):
            board.words[first + place] = value


def is_sound(arch: LinuxArch, saved: Processor) -> bool:
    """Return True if a board can safely take this state; raises for wrong types."""
    words, arrays = saved.words, saved.arrays
    return (
        arch.is_sound(saved.saved())
        and words.keys() == set(arch.kept_of_cpu)
        and all(fits(number, 64) for number in words.values())
        and arrays.keys() == arch.kept_arrays.keys()
        and all(len(arrays[name]) == size for name, size in arch.kept_arrays.items())
        and all(fits(number, 64) for row in arrays.values() for number in row)
        and words["state"] in _STATES
    )
