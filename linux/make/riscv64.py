# SPDX-License-Identifier: GPL-2.0-or-later
"""The device tree that a kernel for riscv64 finds, and its processor's first state.

Kernel: Documentation/arch/riscv/boot.rst
"""

from __future__ import annotations

import mmap

from kpfs.base import abi
from kpfs.linux.arch import riscv64
from kpfs.linux.board.board import Board
from kpfs.linux.make import layout
from kpfs.linux.package.image_file import KernelImage

# the agent's addresses are those of four levels of page tables
CMDLINE = layout.CMDLINE + "no5lvl randomize_kstack_offset=off"
VERBOSE = " earlycon=sbi keep_bootcon loglevel=7"
_PROCESSOR = """
compatible = "riscv"; mmu-type = "riscv,sv48";
riscv,isa = "rv64imafdc_zicntr_zicsr_zifencei"; riscv,isa-base = "rv64i";
riscv,isa-extensions = "i", "m", "a", "f", "d", "c", "zicntr", "zicsr", "zifencei";
"""
_CONTROLLER = """interrupt-controller {
    compatible = "riscv,cpu-intc"; interrupt-controller; #interrupt-cells = <1>;
};"""
_CLOCK = f"timebase-frequency = <{abi.CLOCK_HZ}>;"


def place(
    ram: mmap.mmap, kernel: KernelImage, initrd: bytes, cmdline: str, cpus: int = 1
) -> int:
    """Lay out everything in RAM, which is zero before; return the kernel's entry."""
    tree = layout.processors(cpus, _PROCESSOR, _CONTROLLER, _CLOCK)
    root = 'compatible = "kpfs,riscv64";'
    return layout.place(ram, kernel, initrd, cmdline, root, tree)


def prepare(board: Board, entry: int) -> None:
    """Set up a processor as the boot protocol wants it: a0 and a1, its number is 0."""
    board.write_reg(riscv64.A1, layout.DEVICE_TREE)
    board.write_reg(riscv64.PC, entry)
