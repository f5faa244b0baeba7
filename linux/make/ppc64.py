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
from kpfs.linux.package.image_file import KernelImage

CMDLINE: str = layout.FIXED_STACKS
VERBOSE = " console=hvc0 loglevel=7"
# mr r4, r3; li r3, 0; ori r3, r3, H_RTAS; sc 1; blr
_FIRMWARE = BIG_64.struct("5I").pack(
    0x7C64_1B78, 0x3860_0000, 0x6063_F000, 0x4400_0022, 0x4E80_0020
)
_FIRMWARE_SIZE = 0x1_0000
_ROOT = 'compatible = "qemu,pseries"; model = "kpfs"; device_type = "chrp";'
# Vector 5: radix trees, and the kernel may invalidate translations by it.
_CHOSEN = """
ibm,architecture-vec-5 = [1a 0000000000000000000000000000000000000000000000 40004000];
linux,stdout-path = "/vdevice/vty@71000000";
"""
_RTAS = """rtas {
    display-character = <%(RTAS_DISPLAY)d>; get-time-of-day = <%(RTAS_GET_TIME)d>;
    set-time-of-day = <%(RTAS_SET_TIME)d>; power-off = <%(RTAS_POWER_OFF)d>;
    system-reboot = <%(RTAS_REBOOT)d>; query-cpu-stopped-state = <%(RTAS_CPU_STATE)d>;
    start-cpu = <%(RTAS_START_CPU)d>; stop-self = <%(RTAS_STOP_SELF)d>;
    ibm,set-xive = <%(RTAS_SET_INTERRUPT)d>; ibm,get-xive = <%(RTAS_GET_INTERRUPT)d>;
    ibm,int-off = <%(RTAS_INTERRUPT_OFF)d>; ibm,int-on = <%(RTAS_INTERRUPT_ON)d>;
    rtas-size = <%(size)d>; linux,rtas-base = <%(at)d>; linux,rtas-entry = <%(at)d>;
    ibm,hypertas-functions =
        "hcall-term", "hcall-interrupt", "hcall-set-mode", "hcall-debug";
};"""
# Pages of 4 and 64 KiB, 2 MiB, 1 GiB: how instructions name them, and their bits.  Then
# features of the architecture, without transactions.  Kernel: ibm_pa_features
_PROCESSOR = """
ibm,processor-radix-AP-encodings = <12 0xa0000010 0x20000015 0x4000001e>;
ibm,pa-features = [
    4200 f63f c7c0 80f0 8000 0000 0000 0000 0000 8000 8000 0000 8000 8000 8000 8000
    8000 c000 8000 8000 8000 8000 8000 8000 8000 8000 8000 0000 0000
];
ibm,dfp = <1>; ibm,vmx = <2>; ibm,purr = <1>; ibm,spurr = <1>; 64-bit; status = "okay";
clock-frequency = <%(CLOCK_HZ)d>; timebase-frequency = <%(CLOCK_HZ)d>;
cpu-version = <0x004e1203>;
i-cache-size = <0x8000>; d-cache-size = <0x8000>;
i-cache-line-size = <128>; d-cache-line-size = <128>;
i-cache-block-size = <128>; d-cache-block-size = <128>;
"""
_DEVICES = """
vdevice {
    #address-cells = <1>; #size-cells = <0>;
    compatible = "IBM,vdevice"; device_type = "vdevice";
    vty@71000000 {
        compatible = "hvterm1"; device_type = "serial"; reg = <0x71000000>;
    };
};
interrupt-controller {
    phandle = <1>; #interrupt-cells = <2>;
    ibm,interrupt-server-ranges = <0 %d>; interrupt-controller;
    compatible = "IBM,ppc-xicp";
    device_type = "PowerPC-External-Interrupt-Presentation";
};
"""


def place(
    ram: mmap.mmap, kernel: KernelImage, initrd: bytes, cmdline: str, cpus: int = 1
) -> int:
    """Lay out everything in RAM, which is zero before; return the kernel's entry."""
    firmware = len(ram) - 2 * layout.MARGIN
    nodes = _RTAS % (vars(abi) | {"at": firmware, "size": _FIRMWARE_SIZE})
    nodes += layout.processors(cpus, _PROCESSOR % vars(abi)) + _DEVICES % cpus
    layout.place(
        *(ram, kernel, initrd, cmdline, _ROOT, nodes),
        chosen=_CHOSEN,
        start=0,
        tree=layout.tree_at_end(ram),
        reserved=(firmware, _FIRMWARE_SIZE),
    )
    ram[firmware : firmware + len(_FIRMWARE)] = _FIRMWARE
    return 0


def prepare(board: Board, entry: int) -> None:
    """Have the processor begin at the kernel's entry, r3 with the device tree."""
    board.write_reg(ppc64.R["r3"], layout.tree_at_end(board.ram))
    board.write_reg(ppc64.PC, entry)
