# SPDX-License-Identifier: GPL-2.0-or-later
"""The device tree that a kernel for ppc64el finds, and its processor's first state.

It tells of a machine with a hypervisor (pseries), whose calls the board answers.  The
firmware (RTAS) is five instructions in memory, which make one of these calls.

Kernel: Documentation/arch/powerpc/booting.rst, the standard PAPR
"""

from __future__ import annotations

import mmap

from kpfs.base import abi
from kpfs.base.data_model import BIG_64
from kpfs.linux.arch import ppc64
from kpfs.linux.board.board import Board
from kpfs.linux.make import layout
from kpfs.linux.make.fdt import FdtNode, Value
from kpfs.linux.package.image_file import KernelImage

CMDLINE: str = layout.FIXED_STACKS
VERBOSE = " console=hvc0 loglevel=7"
# mr r4, r3; li r3, 0; ori r3, r3, H_RTAS; sc 1; blr
_FIRMWARE = BIG_64.struct("5I").pack(
    0x7C64_1B78, 0x3860_0000, 0x6063_F000, 0x4400_0022, 0x4E80_0020
)
_FIRMWARE_SIZE = 0x1_0000
_CALLS = {
    "display-character": abi.RTAS_DISPLAY,
    "get-time-of-day": abi.RTAS_GET_TIME,
    "set-time-of-day": abi.RTAS_SET_TIME,
    "power-off": abi.RTAS_POWER_OFF,
    "system-reboot": abi.RTAS_REBOOT,
    "query-cpu-stopped-state": abi.RTAS_CPU_STATE,
    "start-cpu": abi.RTAS_START_CPU,
    "stop-self": abi.RTAS_STOP_SELF,
    "ibm,set-xive": abi.RTAS_SET_INTERRUPT,
    "ibm,get-xive": abi.RTAS_GET_INTERRUPT,
    "ibm,int-off": abi.RTAS_INTERRUPT_OFF,
    "ibm,int-on": abi.RTAS_INTERRUPT_ON,
}
_HYPERCALLS = "hcall-term", "hcall-interrupt", "hcall-set-mode", "hcall-debug"
_POWER9 = 0x004E_1203
# features of the architecture, without transactions.  Kernel: ibm_pa_features
_FEATURES = bytes.fromhex(
    "4200 f63f c7c0 80f0 8000 0000 0000 0000 0000 8000 8000 0000 8000 8000 8000 8000"
    "8000 c000 8000 8000 8000 8000 8000 8000 8000 8000 8000 0000 0000"
)
# pages of 4 and 64 KiB, 2 MiB, 1 GiB: how instructions name them, and their bits
_PAGE_SIZES = 12, 5 << 29 | 16, 1 << 29 | 21, 2 << 29 | 30
_VECTOR_5 = bytes([26, *[0] * 23, 0x40, 0, 0x40, 0])  # radix trees, invalidated by it
_CONSOLE = 0x7100_0000
_CACHE, _LINE = 0x8000, 128


def place(
    ram: mmap.mmap, kernel: KernelImage, initrd: bytes, cmdline: str, cpus: int = 1
) -> int:
    """Lay out everything in RAM, which is zero before; return the kernel's entry."""
    firmware = len(ram) - 2 * layout.MARGIN
    root: dict[str, Value] = {
        "compatible": "qemu,pseries",
        "model": "kpfs",
        "device_type": "chrp",
    }
    chosen: dict[str, Value] = {
        "ibm,architecture-vec-5": _VECTOR_5,
        "linux,stdout-path": f"/vdevice/vty@{_CONSOLE:x}",
    }
    nodes = _nodes(cpus, firmware)
    layout.place(
        *(ram, kernel, initrd, cmdline, root, nodes),
        chosen=chosen,
        start=0,
        tree=layout.tree_at_end(ram),
        reserved=(firmware, _FIRMWARE_SIZE),
    )
    ram[firmware : firmware + len(_FIRMWARE)] = _FIRMWARE
    return 0


def _nodes(cpus: int, firmware: int) -> list[FdtNode]:
    processor: dict[str, Value] = {
        "ibm,processor-radix-AP-encodings": _PAGE_SIZES,
        "ibm,pa-features": _FEATURES,
        "ibm,dfp": 1,
        "ibm,vmx": 2,
        "ibm,purr": 1,
        "ibm,spurr": 1,
        "64-bit": b"",
        "status": "okay",
        "clock-frequency": abi.CLOCK_HZ,
        "timebase-frequency": abi.CLOCK_HZ,
        "cpu-version": _POWER9,
        **{f"{kind}-cache-size": _CACHE for kind in "id"},
        **{f"{kind}-cache-line-size": _LINE for kind in "id"},
        **{f"{kind}-cache-block-size": _LINE for kind in "id"},
    }  # fmt: skip
    rtas: dict[str, Value] = {
        **_CALLS,
        "rtas-size": _FIRMWARE_SIZE,
        "linux,rtas-base": firmware,
        "linux,rtas-entry": firmware,
        "ibm,hypertas-functions": _HYPERCALLS,
    }
    console: dict[str, Value] = {
        "compatible": "hvterm1",
        "device_type": "serial",
        "reg": _CONSOLE,
    }
    bus: dict[str, Value] = {
        "#address-cells": 1,
        "#size-cells": 0,
        "compatible": "IBM,vdevice",
        "device_type": "vdevice",
    }
    controller: dict[str, Value] = {
        "phandle": 1,
        "#interrupt-cells": 2,
        "ibm,interrupt-server-ranges": (0, cpus),
        "interrupt-controller": b"",
        "compatible": "IBM,ppc-xicp",
        "device_type": "PowerPC-External-Interrupt-Presentation",
    }
    return [
        FdtNode("rtas", rtas),
        layout.processors(cpus, FdtNode("", processor)),
        FdtNode("vdevice", bus, [FdtNode(f"vty@{_CONSOLE:x}", console)]),
        FdtNode("interrupt-controller", controller),
    ]


def prepare(board: Board, entry: int) -> None:
    """Have the processor begin at the kernel's entry, r3 with the device tree."""
    board.write_reg(ppc64.R["r3"], layout.tree_at_end(board.ram))
    board.write_reg(ppc64.PC, entry)
