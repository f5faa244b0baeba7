# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel's memory, of which its root can forge sizes and lists."""

import struct

import pytest

from kpfs.base.errors import KernelError, MemoryFault
from kpfs.linux.memory import memory
from kpfs.linux.memory.btf import Btf
from kpfs.linux.memory.memory import KernelMemory, OneLook, looking


class Endless(KernelMemory):
    """The same page at all addresses: each word leads on."""

    def __init__(self):
        self.pieces = 0

    def _piece(self, addr, size):
        self.pieces += 1
        return ((addr + 8).to_bytes(8, "little") * (size // 8 + 1))[:size]


@pytest.mark.parametrize("size", [-1, -(1 << 31), memory.MAX_READ + 1, 1 << 63])
def test_a_size_that_is_none_is_not_read(size):
    kernel = Endless()
    with pytest.raises(MemoryFault):
        kernel.read(0x1000, size)
    assert kernel.pieces == 0


def test_a_list_without_an_end_ends(monkeypatch):
    monkeypatch.setattr(memory, "MAX_PIECES", 100)
    kernel = Endless()
    with pytest.raises(MemoryFault):
        list(OneLook(kernel).nodes(0x1000, 1 << 40))
    assert kernel.pieces == 100


def test_a_look_reads_so_many_bytes():
    look = OneLook(Endless(), 10_000)
    look.read(0x1000, 4096)
    with pytest.raises(MemoryFault):
        look.read(0x1000, 8192)


def test_what_a_look_finds_wrong_is_efault():
    for wrong in (MemoryFault(8), KeyError("x"), ValueError("x")):
        with pytest.raises(KernelError, match="EFAULT"), looking():
            raise wrong


def test_types_that_hold_each_other_end():
    """Each unnamed member of a structure may be such a structure again."""
    count = 0xFFFF
    words = [0x01, 4 << 24 | count, 8] + [0, 1, 0] * count  # a struct of itself
    types = struct.pack(f"<{len(words)}I", *words)
    names = b"\0rq\0"
    head = struct.pack(
        "<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(names)
    )
    with pytest.raises(ValueError, match="without an end"):
        Btf(head + types + names).layouts({"rq": ("nr_running",)})


def test_types_that_end_too_early():
    types = struct.pack("<3I", 1, 4 << 24 | 5, 8)
    head = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(types), len(types), 4)
    with pytest.raises(ValueError, match=r"not enough|too early"):
        Btf(head + types + b"\0rq\0").layouts({"rq": ("nr_running",)})
