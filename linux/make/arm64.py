# SPDX-License-Identifier: GPL-2.0-or-later
"""Lays out what a kernel for arm64 finds in memory: itself and a device tree.

Kernel: Documentation/arch/arm64/booting.rst
"""

from __future__ import annotations

import mmap

from kpfs.base import abi
from kpfs.linux.arch import arm64
from kpfs.linux.board.board import Board
from kpfs.linux.errors import UnfitError
from kpfs.linux.make.fdt import Node, Value, device_tree, u64
from kpfs.linux.package.arm64_image import Arm64Image

CMDLINE = (
    "nokaslr mitigations=off nowatchdog cryptomgr.notests lsm= psi=0 init_on_alloc=0 "
    "random.trust_bootloader=off rcupdate.rcu_cpu_stall_suppress=1 rdinit=/init quiet "
    "loglevel=1"
)
VERBOSE = f" earlycon=pl011,{abi.UART_BASE:#x} keep_bootcon loglevel=7"
_DEVICE_TREE, _KERNEL = 1 << 20, 1 << 21
_GIC = 1  # number of the node
_PPI, _LOW = 1, 0x104  # interrupt of each processor's own; active low
_TIMER_IRQS = 13, 14, 11, 10  # secure, physical, virtual, of a hypervisor


def place(
    ram: mmap.mmap, kernel: Arm64Image, initrd: bytes, cmdline: str, cpus: int = 1
) -> int:
    """Lay out everything in RAM, which is zero before; return the kernel's entry."""
    image, start = kernel.image, _KERNEL + kernel.text_offset
    at = len(ram) - len(initrd) & -mmap.PAGESIZE
    if start + max(kernel.size, len(image)) > at:
        raise UnfitError("the kernel needs more memory")
    ram[start : start + len(image)] = image
    ram[at : at + len(initrd)] = initrd
    tree = _device_tree(len(ram), (at, at + len(initrd)), cmdline, cpus)
    ram[_DEVICE_TREE : _DEVICE_TREE + len(tree)] = tree
    return start


def _device_tree(
    memory: int, initrd: tuple[int, int], cmdline: str, cpus: int
) -> bytes:
    chosen: dict[str, Value] = {
        "bootargs": cmdline,
        "linux,initrd-start": u64(initrd[0]),
        "linux,initrd-end": u64(initrd[1]),
    }
    processors = [
        Node(
            f"cpu@{number}",
            {
                "device_type": "cpu",
                "compatible": "arm,cortex-a72",
                "reg": number,
                "enable-method": "psci",
            },
        )
        for number in range(cpus)
    ]
    gic: dict[str, Value] = {
        "compatible": "arm,cortex-a15-gic",
        "interrupt-controller": b"",
        "#interrupt-cells": 3,
        "#address-cells": 0,
        "reg": u64(*(abi.GIC_BASE, abi.GIC_SIZE, abi.GIC_CPU_BASE, abi.GIC_CPU_SIZE)),
        "phandle": _GIC,
    }
    timer: dict[str, Value] = {
        "compatible": "arm,armv8-timer",
        "always-on": b"",
        "clock-frequency": abi.CLOCK_HZ,
        "interrupts": [word for irq in _TIMER_IRQS for word in (_PPI, irq, _LOW)],
    }
    cells = {"#address-cells": 2, "#size-cells": 2}
    return device_tree(
        Node(
            "",
            {"compatible": "kpfs,arm64", **cells, "interrupt-parent": _GIC},
            [
                Node("chosen", chosen),
                Node("memory@0", {"device_type": "memory", "reg": u64(0, memory)}),
                Node("cpus", {"#address-cells": 1, "#size-cells": 0}, processors),
                Node("psci", {"compatible": "arm,psci-1.0", "method": "smc"}),
                Node("timer", timer),
                Node(f"intc@{abi.GIC_BASE:x}", gic),
            ],
        )
    )


def prepare(board: Board, entry: int) -> None:
    """Set up a processor as the boot protocol wants it."""
    for name in arm64.GENERAL:
        board.write_reg(arm64.GENERAL[name], 0)
    board.write_reg(arm64.GENERAL["x0"], _DEVICE_TREE)
    board.write_reg(arm64.PC, entry)
