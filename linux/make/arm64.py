# SPDX-License-Identifier: GPL-2.0-or-later
"""The device tree that a kernel for arm64 finds, and its processor's first state.

Kernel: Documentation/arch/arm64/booting.rst
"""

from __future__ import annotations

import mmap

from kpfs.base import abi
from kpfs.linux.arch import arm64
from kpfs.linux.board.board import Board
from kpfs.linux.make import layout
from kpfs.linux.package.image_file import KernelImage

CMDLINE = layout.CMDLINE + "mitigations=off"
VERBOSE = f" earlycon=pl011,{abi.UART_BASE:#x} keep_bootcon loglevel=7"
# The interrupts of the timer are 13, 14, 11, 10 (secure, physical, virtual, of a
# hypervisor): each processor's own (1), active low (0x104).
_NODES = """
psci { compatible = "arm,psci-1.0"; method = "smc"; };
timer {
    compatible = "%(timer)s"; always-on; clock-frequency = <%(CLOCK_HZ)d>;
    interrupts = <1 13 0x104  1 14 0x104  1 11 0x104  1 10 0x104>;
};
intc@%(GIC_BASE)x {
    compatible = "arm,cortex-a15-gic";
    interrupt-controller; #interrupt-cells = <3>; #address-cells = <0>;
    reg = <0 %(GIC_BASE)d 0 %(GIC_SIZE)d 0 %(GIC_CPU_BASE)d 0 %(GIC_CPU_SIZE)d>;
    phandle = <1>;
};
"""


def place(
    ram: mmap.mmap, kernel: KernelImage, initrd: bytes, cmdline: str, cpus: int = 1
) -> int:
    """Lay out everything in RAM, which is zero before; return the kernel's entry."""
    tree = nodes(cpus, "arm,cortex-a72", "arm,armv8-timer")
    return layout.place(ram, kernel, initrd, cmdline, root("kpfs,arm64"), tree)


def root(name: str) -> str:
    """Return the properties of a tree's root."""
    return f'compatible = "{name}"; interrupt-parent = <1>;'


def nodes(cpus: int, processor: str, timer: str) -> str:
    """Return the nodes of what the board has, by what the kernel knows them as."""
    each = f'compatible = "{processor}"; enable-method = "psci";'
    return layout.processors(cpus, each) + _NODES % (vars(abi) | {"timer": timer})


def prepare(board: Board, entry: int) -> None:
    """Set up a processor as the boot protocol wants it."""
    for name in arm64.GENERAL:
        board.write_reg(arm64.GENERAL[name], 0)
    board.write_reg(arm64.GENERAL["x0"], layout.DEVICE_TREE)
    board.write_reg(arm64.PC, entry)
