# SPDX-License-Identifier: GPL-2.0-or-later
"""The device tree that a kernel for mips64el finds, and its processor's first state.

Kernel: arch/mips/generic, "UHI" in arch/mips/kernel/head.S
"""

from __future__ import annotations

import mmap

from kpfs.base import abi
from kpfs.base.ktypes import MASK64
from kpfs.linux.arch import mips64
from kpfs.linux.board.board import Board
from kpfs.linux.make import layout
from kpfs.linux.make.fdt import FdtNode, Value, u64
from kpfs.linux.package.image_file import KernelImage

CMDLINE: str = layout.FIXED_STACKS
VERBOSE = f" earlycon=uart8250,mmio,{abi.MIPS64_CONSOLE:#x} keep_bootcon loglevel=7"
_UNMAPPED = 0xFFFF_FFFF_8000_0000  # the segment where the kernel is
_BY_TREE = -2 & MASK64  # what a0 says of a1
_CLOCK, CONTROLLER = 1, 2  # phandles
_COUNTS = 2  # cycles of a processor for one count


def place(
    ram: mmap.mmap, kernel: KernelImage, initrd: bytes, cmdline: str, cpus: int = 1
) -> int:
    """Lay out everything in RAM, which is zero before; return the kernel's entry."""
    sent: dict[str, Value] = {
        "compatible": "mti,gic",
        "reg": u64(abi.MIPS64_GIC, abi.MIPS64_GIC_SIZE),
        "interrupt-controller": b"",
        "#interrupt-cells": 3,
    }
    root: dict[str, Value] = {
        "compatible": "kpfs,mips64",
        "model": "kpfs",
        "interrupt-parent": CONTROLLER,
    }
    nodes = [
        *processors(cpus, _COUNTS * (abi.CLOCK_HZ // abi.MIPS64_NS_PER_COUNT)),
        FdtNode(f"interrupt-controller@{abi.MIPS64_GIC:x}", sent),
    ]
    return layout.place(
        *(ram, kernel, initrd, cmdline, root, nodes),
        start=0,
        tree=layout.tree_at_end(ram),
    )


def processors(count: int, frequency: int) -> list[FdtNode]:
    """Return the nodes of processors, of their clock and interrupt controller.

    frequency: of the clock, in Hz.
    """
    clock: dict[str, Value] = {
        "compatible": "fixed-clock",
        "#clock-cells": 0,
        "clock-frequency": frequency,
        "phandle": _CLOCK,
    }
    controller: dict[str, Value] = {
        "compatible": "mti,cpu-interrupt-controller",
        "interrupt-controller": b"",
        "#interrupt-cells": 1,
        "#address-cells": 0,
        "phandle": CONTROLLER,
    }
    each: dict[str, Value] = {"compatible": "mti,5KE", "clocks": _CLOCK}
    return [
        layout.processors(count, FdtNode("", each)),
        FdtNode("clock", clock),
        FdtNode("interrupt-controller", controller),
    ]


def prepare(board: Board, entry: int) -> None:
    """Have the processor begin at the kernel's entry, a1 with the device tree."""
    board.write_reg(mips64.GPR["r4"], _BY_TREE)
    board.write_reg(mips64.GPR["r5"], _UNMAPPED + layout.tree_at_end(board.ram))
    board.write_reg(mips64.COUNTER, _UNMAPPED + entry)
