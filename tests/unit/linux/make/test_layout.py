# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel with a device tree finds these things in memory.

Tests kpfs.linux.make.arm64, kpfs.linux.make.riscv64.
"""

import mmap

import pytest

from kpfs.linux.arch.arches import ARM64, RISCV64
from kpfs.linux.errors import UnfitError
from kpfs.linux.make import arm64, riscv64
from kpfs.linux.package.image_file import KernelImage

RAM = 8 << 20
# what stands in the tree for each of two processors, and once more
MAKERS = [(arm64, ARM64, b"psci\0", 3), (riscv64, RISCV64, b"riscv,cpu-intc\0", 2)]


@pytest.mark.parametrize(("maker", "arch", "word", "count"), MAKERS)
def test_kernel_tree_and_initrd_lie_apart(maker, arch, word, count):
    ram = mmap.mmap(-1, RAM)
    kernel = KernelImage("6.12.0", b"kernel", 0x80000, 1 << 20, arch)
    entry = maker.place(ram, kernel, b"initrd", "quiet", 2)
    assert entry % (1 << 21) == 0x80000
    assert ram[entry : entry + 6] == b"kernel"
    at = ram.find(b"initrd", RAM - mmap.PAGESIZE)
    assert at == RAM - mmap.PAGESIZE
    tree = ram.find(b"\xd0\x0d\xfe\xed")
    size = int.from_bytes(ram[tree + 4 : tree + 8], "big")
    assert tree % 8 == 0
    assert tree + size <= entry
    assert b"quiet\0" in ram[tree : tree + size]
    assert ram[tree : tree + size].count(word) == count


def test_a_kernel_that_is_too_large():
    kernel = KernelImage("6.12.0", b"kernel", 0, RAM, ARM64)
    with pytest.raises(UnfitError, match="more memory"):
        arm64.place(mmap.mmap(-1, RAM), kernel, b"initrd", "")
