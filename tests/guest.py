# SPDX-License-Identifier: GPL-2.0-or-later
"""What tests do with the guest and its CPUs that the product does not."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

from kpfs.engine.ktypes import Task
from kpfs.guest.emu.cpu import Cpu
from kpfs.guest.machine import Guest

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


def tasks_of(guest: Guest) -> list[Task]:
    """All tasks but the idle ones, in order of their creation."""
    return list(_tasks(guest))


def _tasks(guest: Guest) -> Iterator[Task]:
    info, read = guest.info, guest.read_u64
    addr = read(info.init_task + info.task_next) - info.task_next
    while addr != info.init_task:
        yield guest.task_table.read(addr)
        addr = read(addr + info.task_next) - info.task_next
