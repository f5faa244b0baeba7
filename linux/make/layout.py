# SPDX-License-Identifier: GPL-2.0-or-later
"""Lays out what a kernel with a device tree finds in memory: itself and that tree."""

from __future__ import annotations

import mmap

from kpfs.linux.errors import UnfitError
from kpfs.linux.make.fdt import device_tree, u64
from kpfs.linux.package.image_file import KernelImage

CMDLINE = (
    "nokaslr nowatchdog cryptomgr.notests lsm= psi=0 init_on_alloc=0 "
    "random.trust_bootloader=off rcupdate.rcu_cpu_stall_suppress=1 rdinit=/init quiet "
    "loglevel=1 "
)
FIXED_STACKS = CMDLINE + "randomize_kstack_offset=off"
DEVICE_TREE, _KERNEL = 1 << 20, 1 << 21
MARGIN = 1 << 20  # the initrd, too, has so much at RAM's end


def place(
    ram: mmap.mmap,
    kernel: KernelImage,
    initrd: bytes,
    cmdline: str,
    root: str,
    nodes: str,
    *,
    chosen: str = "",
    start: int = _KERNEL,
    tree: int = DEVICE_TREE,
    reserved: tuple[int, int] | None = None,
) -> int:
    """Lay out everything in RAM, which is zero before; return the kernel's entry.

    root, nodes: the source of what the architecture's device tree has besides memory
    and arguments; chosen: besides these. start, tree: where kernel and tree are to be.
    reserved: address and size of memory that the kernel leaves alone.
    """
    image, start = kernel.image, start + kernel.text_offset
    at = len(ram) - len(initrd) & -mmap.PAGESIZE
    if start + max(kernel.size, len(image)) > min(at, tree if tree > start else at):
        raise UnfitError("the kernel needs more memory")
    ram[start : start + len(image)] = image
    ram[at : at + len(initrd)] = initrd
    source = f"""/ {{
        {root} #address-cells = <2>; #size-cells = <2>;
        chosen {{
            bootargs = [{cmdline.encode().hex()} 00];
            linux,initrd-start = <{u64(at)}>;
            linux,initrd-end = <{u64(at + len(initrd))}>;
            {chosen}
        }};
        memory@0 {{ device_type = "memory"; reg = <{u64(0, len(ram))}>; }};
        {nodes}
    }};"""
    blob = device_tree(source, reserved)
    ram[tree : tree + len(blob)] = blob
    return start


def tree_at_end(ram: mmap.mmap) -> int:
    """Return where a device tree is to be for kernels that begin at address 0."""
    return len(ram) - 3 * MARGIN


def processors(cpus: int, each: str, below: str = "", common: str = "") -> str:
    """Return the source of the node of the processors.

    each, below: the properties of every one, and the nodes below it. common: the
    properties of the node of all.
    """
    nodes = "".join(
        f'cpu@{number} {{ device_type = "cpu"; {each} reg = <{number}>; {below} }};'
        for number in range(cpus)
    )
    return f"cpus {{ #address-cells = <1>; #size-cells = <0>; {common} {nodes} }};"
