# SPDX-License-Identifier: GPL-2.0-or-later
"""Boots a distribution's kernel in QEMU, which emulates the processor, too (no KVM).

The processors are those that libunicorn has, as far as QEMU's kernels run on them.
"""

from __future__ import annotations

import mmap
import shutil
from pathlib import Path
from typing import NamedTuple

from bench import qemu_kernel
from bench.command import NotHereError
from kpfs.base.data_model import BIG_64
from kpfs.linux.arch.arches import MIPS64, PACKAGED, split_name
from kpfs.linux.make import layout, mips64
from kpfs.linux.package import image_file
from tests import harness

QUIET = "quiet loglevel=1"
MEGABYTES = 512
# QEMU's Malta is told of its devices by a tree, as Debian's kernel knows none by itself
_MALTA_RAM, _MALTA_MORE_RAM = 256 << 20, 0x9000_0000  # bytes from 0; where the rest is
_MALTA_TREE = 1 << 20  # from the end of RAM, where the initrd does not reach
_MALTA_HZ, _MALTA_UART = 320_000_000, 0x1F00_0900
_MALTA_BOARD = 0x1F00_0000


class QemuMachine(NamedTuple):
    """The machine of an architecture: QEMU's program, its options, and the console."""

    words: str
    console: str


MACHINES = {
    "amd64": QemuMachine("qemu-system-x86_64 -M q35 -cpu max", "ttyS0"),
    "i386": QemuMachine("qemu-system-i386 -M q35", "ttyS0"),
    "arm64": QemuMachine("qemu-system-aarch64 -M virt -cpu cortex-a72", "ttyAMA0"),
    "armhf": QemuMachine("qemu-system-arm -M virt -net none", "ttyAMA0"),
    "riscv64": QemuMachine(
        "qemu-system-riscv64 -M virt -cpu rv64,h=off,zba=off,zbb=off,zbc=off,zbs=off",
        "ttyS0",
    ),
    "s390x": QemuMachine("qemu-system-s390x -M s390-ccw-virtio", "ttysclp0"),
    "ppc64el": QemuMachine(
        "qemu-system-ppc64 -cpu POWER9 -nodefaults"
        " -M pseries,cap-cfpc=broken,cap-sbbc=broken,cap-ibs=broken",
        "hvc0",
    ),
    "mips64el": QemuMachine("qemu-system-mips64el -M malta -cpu 5KEf", "ttyS0"),
}


class QemuKernel:
    """A kernel of a package, in QEMU."""

    def __init__(self, name: str, folder: Path) -> None:
        """Fetch it into a folder.  Raises NotHereError, UnfitError."""
        _, self.arch = split_name(name)
        self.machine = MACHINES[self.arch]
        self.words = self.machine.words.split()
        if not shutil.which(self.words[0]):
            raise NotHereError(f"{self.words[0]} missing")
        self.kernel = folder / "vmlinuz"
        self.kernel.write_bytes(qemu_kernel.fetch_kernel(name))

    def command(self, initrd: Path, append: str) -> list[str | Path]:
        """Return the command that boots it; its console is the standard output."""
        append = f"console={self.machine.console} {QUIET} {append}"
        words = [*self.words, "-display", "none", "-monitor", "none", "-no-reboot"]
        words += ["-m", f"{MEGABYTES}M"]
        if PACKAGED[self.arch] is MIPS64:
            return [*words, *self._malta(initrd.read_bytes(), append)]
        words += ["-serial", "stdio"]
        return [*words, "-kernel", self.kernel, "-initrd", initrd, "-append", append]

    def said(self, initrd: Path, append: str, timeout: float) -> str:
        """Boot it and return what it has written to its console until it reboots."""
        return harness.run(*self.command(initrd, append), timeout=timeout).stdout

    def _malta(self, initrd: bytes, append: str) -> list[str | Path]:
        """Write down RAM and firmware; return the options that name them."""
        packed = self.kernel.read_bytes()
        kernel = image_file.parse(image_file.unpacked(packed), MIPS64, packed)
        ram = mmap.mmap(-1, _MALTA_RAM)
        tree = _MALTA_RAM - len(initrd) - _MALTA_TREE & -mmap.PAGESIZE
        entry = layout.place(
            *(ram, kernel, initrd, append, _MALTA_ROOT, _malta_nodes()),
            start=0,
            tree=tree,
        )
        memory, firmware = self.kernel.with_name("ram"), self.kernel.with_name("rom")
        memory.write_bytes(ram)
        firmware.write_bytes(_firmware(entry, tree))
        serial = "null", "null", "stdio"  # the third one is the board's own
        return [
            *("-nic", "none", "-bios", firmware),
            *(word for each in serial for word in ("-serial", each)),
            *("-device", f"loader,file={memory},addr=0,force-raw=on"),
        ]


_MALTA_ROOT = 'compatible = "kpfs,malta"; model = "malta"; interrupt-parent = <2>;'
_MALTA_NODES = """
memory@%(more)x { device_type = "memory"; reg = <0 %(more)d 0 %(size)d>; };
board@%(board)x {
    compatible = "mti,malta-fpga", "syscon", "simple-mfd"; reg = <0 %(board)d 0 0x1000>;
    native-endian; phandle = <3>;
    reboot {
        compatible = "syscon-reboot"; regmap = <3>; offset = <0x500>; mask = <0x42>;
    };
};
serial@%(uart)x {
    compatible = "ns16550a"; reg = <0 %(uart)d 0 64>; clock-frequency = <1843200>;
    reg-shift = <3>;
};
"""


def _malta_nodes() -> str:
    words = {"more": _MALTA_MORE_RAM, "size": (MEGABYTES << 20) - _MALTA_RAM}
    words |= {"board": _MALTA_BOARD, "uart": _MALTA_UART}
    return _MALTA_NODES % words + mips64.processors(1, _MALTA_HZ)


def _firmware(entry: int, tree: int) -> bytes:
    """Return code that starts a kernel with a device tree, at 0xbfc00000.

    QEMU puts the board's revision at its fifth word, so it begins with a jump.
    """
    segment = 0x8000_0000
    start, blob = segment + entry, segment + tree
    code = [
        *(0x1000_0007, *[0] * 7),  # b 0x20
        0x2404_FFFE,  # li a0, -2: a1 has a tree
        *(0x3C05_0000 | blob >> 16, 0x34A5_0000 | blob & 0xFFFF),  # li a1, blob
        *(0x2406_0000, 0x2407_0000),  # li a2, 0; li a3, 0
        *(0x3C08_0000 | start >> 16, 0x3508_0000 | start & 0xFFFF),  # li t0, start
        *(0x0100_0008, 0),  # jr t0
    ]
    return BIG_64.struct(f"{len(code)}I").pack(*code) + bytes(4096)
