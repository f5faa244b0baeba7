# SPDX-License-Identifier: GPL-2.0-or-later
"""Architectures whose registers are read and written in libunicorn's own state."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from typing import ClassVar

from kpfs.emulator import libunicorn
from kpfs.linux.arch.arch import Engine, LinuxArch, SavedRegisters, fits


class StateArch(LinuxArch):
    """An architecture of which an image keeps words of the state."""

    state: ClassVar[Mapping[str, int]]  # offsets of the words, by name
    registers: ClassVar[Mapping[str, int]]  # libunicorn's numbers, by name
    places: ClassVar[Mapping[str, int]]  # what debuggers show, in the state, by name
    engine_place: ClassVar[int]  # where it has a pointer to the engine
    more: ClassVar[Mapping[str, int]] = {}  # further words, behind more_at()

    def __init_subclass__(cls) -> None:
        """Have images keep what a board adds to registers, and debuggers show it."""
        added = vars(cls)
        if "board_fields" in added and "kept" not in added:
            cls.kept = "now", "deadline", "current", *cls.board_fields
        if "cpu_fields" in added:
            cls.kept_of_cpu = "state", "since", "timer", *cls.cpu_fields
        if "places" in added and "shown" not in added:
            cls.shown = tuple(cls.places)

    def find_state(self, engine: Engine) -> int:
        address = address_of(engine)
        known = _keeps_registers(engine, self.registers, self.places)
        known = known and word(address + self.engine_place).value == engine.address
        return address if known else 0

    def debugged(self, engine: Engine, name: str) -> int:
        return word(address_of(engine) + self.places[name]).value

    def set_debugged(self, engine: Engine, name: str, value: int) -> None:
        word(address_of(engine) + self.places[name]).value = value

    def features(self, engine: Engine) -> Mapping[int, int]:
        return {}

    @staticmethod
    def more_at(state: int) -> int:
        """Return where the words of ``more`` begin, by where the state is."""
        return state

    def _words(self, state: int) -> Iterator[tuple[str, int]]:
        yield from ((name, state + at) for name, at in self.state.items())
        start = self.more_at(state)
        yield from ((name, start + at) for name, at in self.more.items())

    def save(self, engine: Engine) -> SavedRegisters:
        words = self._words(address_of(engine))
        return SavedRegisters({name: word(at).value for name, at in words}, {}, 0)

    def load(self, engine: Engine, saved: SavedRegisters) -> None:
        for name, at in self._words(address_of(engine)):
            word(at).value = saved.values[name]

    def place(self, saved: SavedRegisters, state: int) -> None:
        for name, at in self.state.items():
            word(state + at).value = saved.values[name]

    def is_sound(self, saved: SavedRegisters) -> bool:
        return (
            saved.values.keys() == self.state.keys() | self.more.keys()
            and all(fits(number, 64) for number in saved.values.values())
            and not saved.tables
            and saved.mode == 0
        )


def _keeps_registers(
    engine: Engine, registers: Mapping[str, int], places: Mapping[str, int]
) -> bool:
    """Return True if these are at their places in the state; write 0 to all of them."""
    address = address_of(engine)
    values = {name: 0x5EED_0000_1234_0000 + 4 * reg for name, reg in registers.items()}
    for name, value in values.items():
        engine.write_reg(registers[name], value)
    known = {name: word(address + places[name]).value for name in values} == values
    for reg in registers.values():
        engine.write_reg(reg, 0)
    return known


def address_of(engine: Engine) -> int:
    """Return the address of an engine's state in this process."""
    return libunicorn.state_of(engine.address)


def word(address: int) -> ctypes.c_uint64:
    """Return the word at an address of this process."""
    return ctypes.c_uint64.from_address(address)
