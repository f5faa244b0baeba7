# SPDX-License-Identifier: GPL-2.0-or-later
"""The device tree that a kernel for armhf finds, and its processor's first state.

Kernel: Documentation/arch/arm/booting.rst
"""

from __future__ import annotations

import mmap

from kpfs.linux.arch import armhf
from kpfs.linux.board.board import Board
from kpfs.linux.make import arm64, layout
from kpfs.linux.package.image_file import KernelImage

CMDLINE, VERBOSE = arm64.CMDLINE, arm64.VERBOSE
_BY_TREE = 0xFFFF_FFFF  # the number of a machine that a device tree describes
_ROOM = 4 << 20  # bytes of a kernel behind its file


def place(
    ram: mmap.mmap, kernel: KernelImage, initrd: bytes, cmdline: str, cpus: int = 1
) -> int:
    """Lay out everything in RAM, which is zero before; return the kernel's entry."""
    root = arm64.root("kpfs,armhf")
    tree = arm64.nodes(cpus, "arm,cortex-a15", "arm,armv7-timer")
    whole = kernel._replace(size=kernel.size + _ROOM)
    return layout.place(ram, whole, initrd, cmdline, root, tree, start=0)


def prepare(board: Board, entry: int) -> None:
    """Set up a processor as the boot protocol wants it."""
    board.set_mode(entry)  # it begins in AArch64
    for name, value in zip(
        ("r0", "r1", "r2"), (0, _BY_TREE, layout.DEVICE_TREE), strict=True
    ):
        board.write_reg(armhf.R[name], value)
