# SPDX-License-Identifier: GPL-2.0-or-later
"""A loop of guest code to measure with, and the same loop in a bare engine."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

from kpfs.base import abi
from kpfs.emulator.libunicorn import check

# Functions that are called: harmless whatever the argument, at home in every Linux.
TARGETS = ("__x64_sys_getppid", "nsecs_to_jiffies", "msecs_to_jiffies", "ksys_lseek")
CALLS = 20_000  # in one run of the loop


def loop_code(at: int, target: int) -> bytes:
    """long loop(long n): call target(-1) n times."""
    # push rbx; mov rbx, rdi
    # 1: mov edi, -1; call target; dec rbx; jnz 1b; pop rbx; ret
    body = b"\x53\x48\x89\xfb" + b"\xbf\xff\xff\xff\xff\xe8"
    distance = struct.pack("<i", target - (at + len(body) + 4))
    return body + distance + b"\x48\xff\xcb\x75\xf1\x5b\xc3"


class Loop:
    """The loop, placed in the guest near its text."""

    def __init__(self, machine: Any, target: str = TARGETS[0]) -> None:
        self.machine = machine
        self.target = machine.kallsyms.lookup_name(target)[0].addr
        self.at = machine.area.alloc_text(4096)
        machine.text_writer.poke_text(self.at, loop_code(self.at, self.target))
        machine.text_writer.drop(self.at, 32)

    def __call__(self, calls: int = CALLS) -> None:
        self.machine.call(self.at, calls)


def _register(cpu: Any, number: int) -> int:
    value = ctypes.c_uint64()
    check(cpu._py.uc_reg_read(cpu._uc, number, ctypes.byref(value)))
    return value.value


class BareEngine:
    """A second engine with no hook at all over a copy of the guest's memory."""

    def __init__(self, machine: Any) -> None:
        import unicorn
        from unicorn import x86_const as x86

        cpu, memory = machine.cpus, machine.memory
        stack = machine.area.alloc_data(8192) + 8192 - 64
        self.stack_at = memory.translate(stack, 8)
        self.memory = ctypes.create_string_buffer(memory.size)
        ctypes.memmove(self.memory, memory.host_address(), memory.size)
        uc = self.uc = unicorn.Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64)
        uc.mem_map_ptr(
            0, memory.size, unicorn.UC_PROT_ALL, ctypes.addressof(self.memory)
        )
        uc.msr_write(0xC0000080, 0xD01)
        for register in ("CR4", "CR3", "CR0"):
            number = getattr(x86, f"UC_X86_REG_{register}")
            uc.reg_write(number, _register(cpu, number))
        gs = x86.UC_X86_REG_GS_BASE
        uc.reg_write(gs, _register(cpu, gs))
        uc.reg_write(x86.UC_X86_REG_CS, abi.CS)
        uc.reg_write(x86.UC_X86_REG_RFLAGS, 2)
        self.stack = stack
        self.registers = (x86.UC_X86_REG_RDI, x86.UC_X86_REG_RSP)

    def __call__(self, at: int, calls: int = CALLS) -> None:
        argument, sp = self.registers
        end = at + 64  # behind the loop, on the same page
        self.uc.reg_write(argument, calls)
        self.uc.reg_write(sp, self.stack)
        self.uc.mem_write(self.stack_at, struct.pack("<Q", end))
        self.uc.emu_start(at, end)
