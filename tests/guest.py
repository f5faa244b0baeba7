# SPDX-License-Identifier: GPL-2.0-or-later
"""Operations on the guest and its CPUs that only tests need."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.base.ktypes import TaskInfo
from kpfs.emulator.libunicorn import check
from kpfs.guest.emu.cpu import Cpu
from kpfs.guest.machine import Guest

GS_BASE = 251  # UC_X86_REG_GS_BASE
HOOK_CODE = 4  # UC_HOOK_CODE


def set_gs_base(cpu: Cpu, addr: int) -> None:
    """Set the base of the segment GS of the loaded CPU."""
    cpu._registers._write(GS_BASE, addr)


def hook_code(
    cpu: Cpu, first: int, last: int, callback: Callable[..., None]
) -> ctypes.c_void_p:
    """Call back before each instruction from first to last; a handle of the hook."""
    word, half = ctypes.c_uint64, ctypes.c_uint32
    hook = ctypes.CFUNCTYPE(None, word, word, half, word)(callback)
    cpu._keep.append(hook)
    address, handle = ctypes.cast(hook, ctypes.c_void_p), ctypes.c_void_p()
    to, begin, end = ctypes.byref(handle), word(first), word(last)
    check(cpu._py.uc_hook_add(cpu._uc, to, HOOK_CODE, address, None, begin, end))
    cpu.length.stop_anywhere(True)  # else nothing stops at an instruction
    cpu.drop(first, last - first + 1)
    return handle


def run_to(cpu: Cpu, addr: int) -> None:
    """Run until the instruction at addr is next, or something else stops the CPU."""
    handle = hook_code(cpu, addr, addr, lambda *_arguments: cpu.stop())
    try:
        cpu.run()
    finally:
        check(cpu._py.uc_hook_del(cpu._uc, handle))
        cpu.length.stop_anywhere(False)
        cpu.drop(addr, 1)


def come_to_rest(kernel: GuestKernel) -> None:
    """Let tasks of processes that have ended go, and all that is due be done."""
    with kernel.lock:
        kernel.syscalls.reap()
        for _ in range(1000):
            if kernel.guest.next_deadline() is None:
                return
            kernel.guest.tick()
    raise AssertionError("the guest does not come to rest")


def tasks_of(guest: Guest) -> list[TaskInfo]:
    """All tasks but the idle ones, in order of their creation."""
    return list(_tasks(guest))


def _tasks(guest: Guest) -> Iterator[TaskInfo]:
    info, read = guest.info, guest.read_u64
    addr = read(info.init_task + info.task_next) - info.task_next
    while addr != info.init_task:
        yield guest.task_table.read(addr)
        addr = read(addr + info.task_next) - info.task_next
