# SPDX-License-Identifier: GPL-2.0-or-later
"""What tests do with an emulated CPU that the product does not, by the library."""

from __future__ import annotations

import ctypes

from kpfs.guest.emu.cpu import Cpu

GS_BASE = 251  # UC_X86_REG_GS_BASE
HOOK_CODE = 4  # UC_HOOK_CODE


def set_gs_base(cpu: Cpu, addr: int) -> None:
    """Where the segment GS of the loaded CPU begins."""
    cpu._write(GS_BASE, addr)


def run_to(cpu: Cpu, addr: int) -> None:
    """Run until the instruction at addr is next, or something else stops the CPU."""
    word, half = ctypes.c_uint64, ctypes.c_uint32
    make = ctypes.CFUNCTYPE(None, word, word, half, word)
    stop = make(lambda *_arguments: cpu.stop())
    address = ctypes.cast(stop, ctypes.c_void_p)
    handle, at = ctypes.c_void_p(), word(addr)
    to = ctypes.byref(handle)
    cpu._check(cpu._py.uc_hook_add(cpu._uc, to, HOOK_CODE, address, None, at, at))
    cpu.drop(addr, 1)
    try:
        cpu.run()
    finally:
        cpu._check(cpu._py.uc_hook_del(cpu._uc, handle))
        cpu.drop(addr, 1)
