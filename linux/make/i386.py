# SPDX-License-Identifier: GPL-2.0-or-later
"""The first state of a processor for i386; its kernels find what those of x86-64 do.

Kernel: Documentation/arch/x86/boot.rst (32-bit boot protocol)
"""

from __future__ import annotations

from kpfs.base import abi
from kpfs.base.data_model import LITTLE_64
from kpfs.emulator import x86_registers
from kpfs.linux.arch import x86
from kpfs.linux.arch.state import address_of, word
from kpfs.linux.board.board import Board
from kpfs.linux.make.x86 import BOOT_PARAMS, CMDLINE, GDT, STACK, VERBOSE, place

__all__ = ["CMDLINE", "VERBOSE", "place", "prepare"]
_LONG_MODE, _PROTECTED, _FIXED_FLAGS = 0x8000_0001, 0x11, 2
_SEGMENT = LITTLE_64.struct("IIQII")  # struct segment
_CODE, _DATA, _FLAT = (0x10, 0xCF9B00), (0x18, 0xCF9300), 0xFFFF_FFFF
_ORDER = _DATA, _CODE, _DATA, _DATA, _DATA, _DATA  # es cs ss ds fs gs


def prepare(board: Board, entry: int) -> None:
    """Leave long mode, in which the engine is; go on without paging."""
    general, control = x86_registers.GENERAL, x86_registers.CONTROL
    for name in general:
        board.write_reg(general[name], 0)
    state = address_of(board)
    word(state + abi.X86State.cr).value = _LONG_MODE
    board.write_reg(control["cr0"], _PROTECTED)
    x86_registers.write_msr(board, x86_registers.MSRS["efer"], 0)
    board.write_reg(control["cr4"], 0)
    board.set_mode(abi.MODE_KERNEL)
    at = state + abi.X86State.segs
    for number, (selector, flags) in enumerate(_ORDER):
        packed = _SEGMENT.pack(selector, 0, 0, _FLAT, flags)
        for offset in range(0, _SEGMENT.size, 8):
            value = LITTLE_64.number(packed[offset : offset + 8])
            word(at + number * _SEGMENT.size + offset).value = value
    x86.write_table(board, "gdtr", (0, GDT, 31, 0))
    x86.write_table(board, "idtr", (0, 0, 0, 0))
    board.write_reg(general["rflags"], _FIXED_FLAGS)
    board.write_reg(general["rsi"], BOOT_PARAMS)
    board.write_reg(general["rsp"], STACK)
    board.write_reg(general["rip"], entry)
