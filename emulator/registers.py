# SPDX-License-Identifier: GPL-2.0-or-later
"""Read and write the registers of an engine by libunicorn's numbers."""

from __future__ import annotations

import ctypes

from kpfs.base.typed import TYPE_CHECKING, Protocol
from kpfs.emulator.libunicorn import check

if TYPE_CHECKING:
    from typing import Any


class RegisterFile(Protocol):
    """The registers of the processor that an engine has loaded."""

    def read_reg(self, number: int) -> int: ...
    def write_reg(self, number: int, value: int) -> None: ...
    def read_raw(self, number: int, raw: bytes) -> bytes:
        """Read a register whose value is a structure, part of which says which."""

    def write_raw(self, number: int, raw: bytes) -> None: ...


class EngineRegisters:
    """Implements RegisterFile by the library."""

    def __init__(self, library: Any, engine: ctypes.c_void_p) -> None:
        self._read, self._write = library.uc_reg_read, library.uc_reg_write
        self._engine = engine

    def read_reg(self, number: int) -> int:
        value = ctypes.c_uint64()
        check(self._read(self._engine, number, ctypes.byref(value)))
        return value.value

    def write_reg(self, number: int, value: int) -> None:
        word = ctypes.c_uint64(value)
        check(self._write(self._engine, number, ctypes.byref(word)))

    def read_raw(self, number: int, raw: bytes) -> bytes:
        value = ctypes.create_string_buffer(raw, len(raw))
        check(self._read(self._engine, number, value))
        return value.raw

    def write_raw(self, number: int, raw: bytes) -> None:
        value = ctypes.create_string_buffer(raw, len(raw))
        check(self._write(self._engine, number, value))
