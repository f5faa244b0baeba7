# SPDX-License-Identifier: GPL-2.0-or-later
"""Lays out a kernel for s390x, whose parameters stand in its own image.

Kernel: arch/s390/boot/head.S, struct parmarea
"""

from __future__ import annotations

import mmap

from kpfs.base.data_model import BIG_64
from kpfs.linux.arch import s390x
from kpfs.linux.board.board import Board
from kpfs.linux.errors import UnfitError
from kpfs.linux.make import layout
from kpfs.linux.package.image_file import KernelImage

CMDLINE: str = layout.FIXED_STACKS
VERBOSE = " earlyprintk console=ttysclp0 keep_bootcon loglevel=7"
_ENTRY = 0x10000
_INITRD, _CMDLINE_SIZE, _CMDLINE = 0x10408, 0x10430, 0x10480
_SIZE_OF_OLD = 896  # bytes of a command line, in images that do not tell


def place(
    ram: mmap.mmap, kernel: KernelImage, initrd: bytes, cmdline: str, cpus: int = 1
) -> int:
    """Lay out everything in RAM, which is zero before; return the kernel's entry."""
    at = len(ram) - len(initrd) & -mmap.PAGESIZE
    text, image = cmdline.encode() + b"\0", kernel.image
    most = BIG_64.number(image[_CMDLINE_SIZE : _CMDLINE_SIZE + 8]) or _SIZE_OF_OLD
    if len(text) > most:
        raise UnfitError(f"a command line of more than {most - 1} bytes")
    if len(image) > at:
        raise UnfitError("the kernel needs more memory")
    ram[: len(image)] = image
    ram[at : at + len(initrd)] = initrd
    BIG_64.struct("QQ").pack_into(ram, _INITRD, at, len(initrd))
    ram[_CMDLINE : _CMDLINE + len(text)] = text
    return _ENTRY


def prepare(board: Board, entry: int) -> None:
    """Have the processor begin at the kernel's entry, as its first PSW says."""
    board.write_reg(s390x.MASK, s390x.MASK_64)
    board.write_reg(s390x.PC, entry)
