# SPDX-License-Identifier: GPL-2.0-or-later
"""Architectures whose registers are read and written in libunicorn's own state."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import ClassVar

from kpfs.emulator import libunicorn
from kpfs.linux.arch.arch import Engine, LinuxArch, SavedRegisters, fits


class StateArch(LinuxArch):
    """An architecture of which an image keeps words of the state."""

    state: ClassVar[Mapping[str, int]]  # offsets of the words, by name

    def features(self, engine: Engine) -> Mapping[int, int]:
        return {}

    def save(self, engine: Engine) -> SavedRegisters:
        address = address_of(engine)
        values = {name: word(address + at).value for name, at in self.state.items()}
        return SavedRegisters(values, {}, 0)

    def load(self, engine: Engine, saved: SavedRegisters) -> None:
        address = address_of(engine)
        for name, at in self.state.items():
            word(address + at).value = saved.values[name]

    def is_sound(self, saved: SavedRegisters) -> bool:
        return (
            saved.values.keys() == self.state.keys()
            and all(fits(number, 64) for number in saved.values.values())
            and not saved.tables
            and saved.mode == 0
        )


def keeps_registers(
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
