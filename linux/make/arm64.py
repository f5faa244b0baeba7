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
from kpfs.linux.make.fdt import FdtNode, Value, u64
from kpfs.linux.package.image_file import KernelImage

CMDLINE = layout.CMDLINE + "mitigations=off"
VERBOSE = f" earlycon=pl011,{abi.UART_BASE:#x} keep_bootcon loglevel=7"
GIC = 1  # number of the node
_PPI, _LOW = 1, 0x104  # interrupt of each processor's own; active low
_TIMER_IRQS = 13, 14, 11, 10  # secure, physical, virtual, of a hypervisor


def place(
    ram: mmap.mmap, kernel: KernelImage, initrd: bytes, cmdline: str, cpus: int = 1
) -> int:
    """Lay out everything in RAM, which is zero before; return the kernel's entry."""
    root: dict[str, Value] = {"compatible": "kpfs,arm64", "interrupt-parent": GIC}
    tree = nodes(cpus, "arm,cortex-a72", "arm,armv8-timer")
    return layout.place(ram, kernel, initrd, cmdline, root, tree)


def nodes(cpus: int, processor_name: str, timer_name: str) -> list[FdtNode]:
    """Return the nodes of what the board has, by what the kernel knows them as."""
    processor: dict[str, Value] = {
        "compatible": processor_name,
        "enable-method": "psci",
    }
    gic: dict[str, Value] = {
        "compatible": "arm,cortex-a15-gic",
        "interrupt-controller": b"",
        "#interrupt-cells": 3,
        "#address-cells": 0,
        "reg": u64(*(abi.GIC_BASE, abi.GIC_SIZE, abi.GIC_CPU_BASE, abi.GIC_CPU_SIZE)),
        "phandle": GIC,
    }
    timer: dict[str, Value] = {
        "compatible": timer_name,
        "always-on": b"",
        "clock-frequency": abi.CLOCK_HZ,
        "interrupts": [word for irq in _TIMER_IRQS for word in (_PPI, irq, _LOW)],
    }
    return [
        layout.processors(cpus, FdtNode("", processor)),
        FdtNode("psci", {"compatible": "arm,psci-1.0", "method": "smc"}),
        FdtNode("timer", timer),
        FdtNode(f"intc@{abi.GIC_BASE:x}", gic),
    ]


def prepare(board: Board, entry: int) -> None:
    """Set up a processor as the boot protocol wants it."""
    for name in arm64.GENERAL:
        board.write_reg(arm64.GENERAL[name], 0)
    board.write_reg(arm64.GENERAL["x0"], layout.DEVICE_TREE)
    board.write_reg(arm64.PC, entry)
