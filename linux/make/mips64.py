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
from kpfs.linux.package.image_file import KernelImage

CMDLINE: str = layout.FIXED_STACKS
VERBOSE = f" earlycon=uart8250,mmio,{abi.MIPS64_CONSOLE:#x} keep_bootcon loglevel=7"
_UNMAPPED = 0xFFFF_FFFF_8000_0000  # the segment where the kernel is
_BY_TREE = -2 & MASK64  # what a0 says of a1
_COUNTS = 2  # cycles of a processor for one count
_ROOT = 'compatible = "kpfs,mips64"; model = "kpfs"; interrupt-parent = <2>;'
_CLOCK = """clock {
    compatible = "fixed-clock"; #clock-cells = <0>; clock-frequency = <%d>;
    phandle = <1>;
};"""
_CONTROLLER = """interrupt-controller {
    compatible = "mti,cpu-interrupt-controller";
    interrupt-controller; #interrupt-cells = <1>; #address-cells = <0>; phandle = <2>;
};"""
_GIC = """interrupt-controller@%(MIPS64_GIC)x {
    compatible = "mti,gic"; reg = <0 %(MIPS64_GIC)d 0 %(MIPS64_GIC_SIZE)d>;
    interrupt-controller; #interrupt-cells = <3>;
};"""


def place(
    ram: mmap.mmap, kernel: KernelImage, initrd: bytes, cmdline: str, cpus: int = 1
) -> int:
    """Lay out everything in RAM, which is zero before; return the kernel's entry."""
    nodes = processors(cpus, _COUNTS * (abi.CLOCK_HZ // abi.MIPS64_NS_PER_COUNT))
    return layout.place(
        *(ram, kernel, initrd, cmdline, _ROOT, nodes + _GIC % vars(abi)),
        start=0,
        tree=layout.tree_at_end(ram),
    )


def processors(count: int, frequency: int) -> str:
    """Return the nodes of processors, of their clock and interrupt controller.

    Their phandles are 1 and 2.  frequency: of the clock, in Hz.
    """
    each = 'compatible = "mti,5KE"; clocks = <1>;'
    return layout.processors(count, each) + _CLOCK % frequency + _CONTROLLER


def prepare(board: Board, entry: int) -> None:
    """Have the processor begin at the kernel's entry, a1 with the device tree."""
    board.write_reg(mips64.GPR["r4"], _BY_TREE)
    board.write_reg(mips64.GPR["r5"], _UNMAPPED + layout.tree_at_end(board.ram))
    board.write_reg(mips64.COUNTER, _UNMAPPED + entry)
