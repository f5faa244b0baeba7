# SPDX-License-Identifier: GPL-2.0-or-later
"""The state of one processor of a board, as an image keeps it."""

from __future__ import annotations

from typing import NamedTuple

from kpfs.base import abi
from kpfs.linux.board import registers
from kpfs.linux.board.board import Board

_WORDS = ("state", "since", "timer", "apic_start", "apic_period", "nmi", "cr2")
_ARRAYS = {"apic": abi.NR_APIC_REGS, "pending": 4}
_STATES = range(abi.CPU_OFF + 1)
_WIDTHS = 16, 64, 32, 32  # bits of a descriptor table's selector, base, limit, flags
_USER = 3  # privilege level in a selector


class Processor(NamedTuple):
    """The registers, and what the board itself knows of a processor."""

    registers: dict[str, int]
    tables: dict[str, list[int]]
    words: dict[str, int]
    arrays: dict[str, list[int]]
    mode: int  # abi.MODE_*


def save(board: Board, number: int) -> Processor:
    """Return the state of a processor. Context: the board continues from this one."""
    board.select(number)
    kept = registers.GENERAL | registers.CONTROL | registers.FPU
    values = {name: board.read_reg(reg) for name, reg in kept.items()}
    values |= {name: board.read_msr(msr) for name, msr in registers.MSRS.items()}
    tables = {name: list(board.read_table(name)) for name in registers.TABLES}
    words = {name: board.get_cpu(number, getattr(abi.Cpu, name)) for name in _WORDS}
    arrays = {}
    for name, count in _ARRAYS.items():
        first = board.cpu_word(number, getattr(abi.Cpu, name))
        arrays[name] = list(board.words[first : first + count])
    user = board.read_reg(registers.SEGMENTS["cs"]) & _USER == _USER
    mode = abi.MODE_USER if user else abi.MODE_KERNEL
    return Processor(values, tables, words, arrays, mode)


def load(board: Board, number: int, processor: Processor) -> None:
    """Put a processor into the state that was saved."""
    board.select(number)
    values = processor.registers
    for name, msr in registers.MSRS.items():
        board.write_msr(msr, values[name])
    for name in ("cr3", "cr4", "cr0", "cr2"):
        board.write_reg(registers.CONTROL[name], values[name])
    for name in registers.TABLES:
        selector, base, limit, flags = processor.tables[name]
        board.write_table(name, (selector, base, limit, flags))
    for name, reg in (registers.GENERAL | registers.FPU).items():
        board.write_reg(reg, values[name])
    board.set_mode(processor.mode)
    board.set_cpu(number, **processor.words)
    for name, saved in processor.arrays.items():
        first = board.cpu_word(number, getattr(abi.Cpu, name))
        for place, value in enumerate(saved):
            board.words[first + place] = value


def is_sound(saved: Processor) -> bool:
    """Return True if a board can safely take this state; raises for wrong types."""
    kept = registers.GENERAL.keys() | registers.CONTROL.keys() | registers.FPU.keys()
    tables, arrays = saved.tables, saved.arrays
    numbers = [*saved.registers.values(), *saved.words.values()]
    return (
        saved.registers.keys() == kept | registers.MSRS.keys()
        and tables.keys() == registers.TABLES.keys()
        and all(len(row) == len(_WIDTHS) for row in tables.values())
        and all(all(map(fits, row, _WIDTHS)) for row in tables.values())
        and saved.words.keys() == set(_WORDS)
        and arrays.keys() == _ARRAYS.keys()
        and all(len(arrays[name]) == count for name, count in _ARRAYS.items())
        and all(fits(number, 64) for row in arrays.values() for number in row)
        and all(fits(number, 64) for number in numbers)
        and saved.words["state"] in _STATES
        and saved.mode in (abi.MODE_KERNEL, abi.MODE_USER)
    )


def fits(number: object, bits: int) -> bool:
    """Return True for an int of at most so many bits that is not negative."""
    return type(number) is int and 0 <= number < 1 << bits
