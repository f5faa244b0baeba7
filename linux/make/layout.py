# SPDX-License-Identifier: GPL-2.0-or-later
"""Lays out what a kernel with a device tree finds in memory: itself and that tree."""

from __future__ import annotations

import mmap
from collections.abc import Sequence

from kpfs.linux.errors import UnfitError
from kpfs.linux.make.fdt import FdtNode, Value, device_tree, u64
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
    root: dict[str, Value],
    nodes: Sequence[FdtNode],
    *,
    chosen: dict[str, Value] | None = None,
    start: int = _KERNEL,
    tree: int = DEVICE_TREE,
    reserved: tuple[int, int] | None = None,
) -> int:
    """Lay out everything in RAM, which is zero before; return the kernel's entry.

    root, nodes: what the architecture's device tree has besides memory and arguments;
    chosen: besides these. start, tree: where kernel and tree are to be. reserved:
    address and size of memory that the kernel leaves alone.
    """
    image, start = kernel.image, start + kernel.text_offset
    at = len(ram) - len(initrd) & -mmap.PAGESIZE
    if start + max(kernel.size, len(image)) > min(at, tree if tree > start else at):
        raise UnfitError("the kernel needs more memory")
    ram[start : start + len(image)] = image
    ram[at : at + len(initrd)] = initrd
    arguments: dict[str, Value] = {
        "bootargs": cmdline,
        "linux,initrd-start": u64(at),
        "linux,initrd-end": u64(at + len(initrd)),
        **(chosen or {}),
    }
    memory: dict[str, Value] = {"device_type": "memory", "reg": u64(0, len(ram))}
    cells: dict[str, Value] = {"#address-cells": 2, "#size-cells": 2}
    below = [FdtNode("chosen", arguments), FdtNode("memory@0", memory), *nodes]
    blob = device_tree(FdtNode("", root | cells, below), reserved)
    ram[tree : tree + len(blob)] = blob
    return start


def tree_at_end(ram: mmap.mmap) -> int:
    """Return where a device tree is to be for kernels that begin at address 0."""
    return len(ram) - 3 * MARGIN


def processors(
    cpus: int, each: FdtNode, properties: dict[str, Value] | None = None
) -> FdtNode:
    """Return the node of the processors.

    each: the properties of every one, and the nodes below it. properties: of the node
    of all.
    """
    cells: dict[str, Value] = {"#address-cells": 1, "#size-cells": 0}
    common: dict[str, Value] = {"device_type": "cpu", **each.properties}
    below = [
        FdtNode(f"cpu@{number}", {**common, "reg": number}, each.below)
        for number in range(cpus)
    ]
    return FdtNode("cpus", {**cells, **(properties or {})}, below)
