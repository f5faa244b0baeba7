# SPDX-License-Identifier: GPL-2.0-or-later
"""What a kernel for arm64 finds in memory."""

import mmap

import pytest

from kpfs.linux.errors import UnfitError
from kpfs.linux.make import arm64
from kpfs.linux.package.arm64_image import Arm64Image

RAM = 8 << 20


def test_kernel_tree_and_initrd_lie_apart():
    ram = mmap.mmap(-1, RAM)
    kernel = Arm64Image("6.12.0", b"kernel", 0x80000, 1 << 20)
    entry = arm64.place(ram, kernel, b"initrd", "quiet", 2)
    assert entry % (1 << 21) == 0x80000
    assert ram[entry : entry + 6] == b"kernel"
    at = ram.find(b"initrd", RAM - mmap.PAGESIZE)
    assert at == RAM - mmap.PAGESIZE
    tree = ram.find(b"\xd0\x0d\xfe\xed")
    size = int.from_bytes(ram[tree + 4 : tree + 8], "big")
    assert tree % 8 == 0
    assert tree + size <= entry
    assert b"quiet\0" in ram[tree : tree + size]
    assert ram[tree : tree + size].count(b"psci\0") == 2 + 1  # of CPUs; the node


def test_a_kernel_that_is_too_large():
    kernel = Arm64Image("6.12.0", b"kernel", 0, RAM)
    with pytest.raises(UnfitError, match="more memory"):
        arm64.place(mmap.mmap(-1, RAM), kernel, b"initrd", "")
