# SPDX-License-Identifier: GPL-2.0-or-later
"""Registers that called functions take.  Tests kpfs.linux.search.callees."""

import ctypes
import json
import os
import platform
from types import SimpleNamespace

from kpfs.linux.board.board import IMAGE_DIR, Board
from kpfs.linux.search.callees import CalledCode, Callees

MODULE, KERNEL, ASSEMBLY = 0x2000, 0x1000, 0x3000
CALL, RET, NOP = 0x94000000, 0xD65F03C0, 0xD503201F


def words(*numbers):
    return b"".join(number.to_bytes(4, "little") for number in numbers)


def to(at, target):
    """Return a call at an address."""
    return CALL | (target - at) // 4 & (1 << 26) - 1


LOCAL = words(NOP, to(MODULE + 4, KERNEL), RET)
CODE = words(NOP, to(MODULE + 0x104, MODULE), to(MODULE + 0x108, ASSEMBLY), RET)


class Kernel:
    """A kernel of two functions, one in assembly, and a module of two."""

    def __init__(self):
        path = os.path.join(IMAGE_DIR, "arm64", f"board-{platform.machine()}.so")
        self.board = object.__new__(Board)
        self.board._board = ctypes.CDLL(path)
        self.machine = self.symbols = self.memory = self

    def symbol_at(self, at):
        name = {KERNEL: "known", ASSEMBLY: "assembly"}.get(at & ~0xFFF)
        return name and SimpleNamespace(addr=at & ~0xFFF, size=8, name=name)

    def read(self, at, size):
        assert (at, size) == (ASSEMBLY, 8)
        return words(NOP, RET)

    def function_at(self, at):
        if at & ~0xFFF != MODULE:
            return None
        return SimpleNamespace(begin=MODULE, code=LOCAL)


def test_types_tell_of_arguments_and_code_where_there_are_none():
    callees = Callees(kernel := Kernel(), kernel)  # type: ignore[arg-type]
    callees._counts = b"\nan 1\nknown 2\nwn 3\n"
    local = CalledCode(4, -1, LOCAL.hex(), [CalledCode(4, 2)])
    found = [*callees.of(MODULE + 0x100, CODE)]
    assert found == [local, CalledCode(8, -1, words(NOP, RET).hex(), [])]
    again = json.loads(json.dumps(found))
    unpacked = [*map(CalledCode.unpacked, again)]
    assert json.dumps(unpacked) == json.dumps(found)
    # in the middle of a function: a stub that jumps far
    assert callees.called(0, MODULE + 4) == CalledCode(0)
    assert callees.called(0, KERNEL + 4) == CalledCode(0)
    assert callees.called(0, 0x9000) == CalledCode(0)
    deepest = callees.called(0, MODULE, depth=2)
    assert deepest == CalledCode(0)
