# SPDX-License-Identifier: GPL-2.0-or-later
"""The registers of x86-64 by libunicorn's numbers, and by the names of debuggers."""

from __future__ import annotations

import struct
from collections.abc import Callable

from kpfs.emulator.registers import RegisterFile

# UC_X86_REG_*; the order of an image's words
GENERAL = {
    "rax": 35, "rcx": 38, "rdx": 40, "rbx": 37, "rsp": 44, "rbp": 36, "rsi": 43,
    "rdi": 39, "r8": 106, "r9": 107, "r10": 108, "r11": 109, "r12": 110, "r13": 111,
    "r14": 112, "r15": 113, "rip": 41, "rflags": 253,
}  # fmt: skip
CONTROL = {"cr0": 50, "cr2": 52, "cr3": 53, "cr4": 54}
MSR = 248
SEGMENTS = {"cs": 11, "ds": 17, "es": 28, "fs": 32, "gs": 33, "ss": 49}
MSRS = {
    "efer": 0xC000_0080,
    "star": 0xC000_0081,
    "lstar": 0xC000_0082,
    "cstar": 0xC000_0083,
    "fmask": 0xC000_0084,
    "fs_base": 0xC000_0100,
    "gs_base": 0xC000_0101,
    "kernel_gs_base": 0xC000_0102,
    "tsc_aux": 0xC000_0103,
    "sysenter_cs": 0x174,
    "sysenter_esp": 0x175,
    "sysenter_eip": 0x176,
    "pat": 0x277,
    "misc_enable": 0x1A0,
}
_MSR = struct.Struct("<I4xQ")  # uc_x86_msr: number, value
# what debuggers call them
_PLAIN = {
    **{("eflags" if n == "rflags" else n): number for n, number in GENERAL.items()},
    **SEGMENTS,
    **CONTROL,
}
_BY_MSR = {
    "fs_base": MSRS["fs_base"],
    "gs_base": MSRS["gs_base"],
    "k_gs_base": MSRS["kernel_gs_base"],
    "efer": MSRS["efer"],
}
SHOWN = *_PLAIN, *_BY_MSR  # registers that debuggers show, by their names there
# The place of the previous exception in a state that uc_context_save() of 2.1.4 has
# written, which is verified at the first fault; and that of its error code before it.
OLD_EXCEPTION, ERROR_CODE_BEFORE = 5536, 112
# what a task that gives up its processor leaves on its stack, from there upwards
_SWITCH_FRAME = "r15", "r14", "r13", "r12", "rbx", "rbp", "rip"


def read_msr(registers: RegisterFile, number: int) -> int:
    return int(_MSR.unpack(registers.read_raw(MSR, _MSR.pack(number, 0)))[1])


def write_msr(registers: RegisterFile, number: int, value: int) -> None:
    registers.write_raw(MSR, _MSR.pack(number, value))


def read_debugged(registers: RegisterFile, name: str) -> int:
    """Return one of SHOWN; KeyError: it is none."""
    if name in _BY_MSR:
        return read_msr(registers, _BY_MSR[name])
    return registers.read_reg(_PLAIN[name])


def write_debugged(registers: RegisterFile, name: str, value: int) -> None:
    """Write one of SHOWN; KeyError: it is none, or a selector."""
    if name in _BY_MSR:
        write_msr(registers, _BY_MSR[name], value)
    elif name in SEGMENTS:  # a selector alone would not say what the segment is
        raise KeyError(name)
    else:
        registers.write_reg(_PLAIN[name], value)


def asleep(sp: int, word: Callable[[int], int]) -> dict[str, int]:
    """Return the registers of a task that sleeps.  Kernel: struct inactive_task_frame.

    sp: its thread.sp.  word: reads 64 bits of memory; MemoryFault.
    """
    found = {name: word(sp + 8 * n) for n, name in enumerate(_SWITCH_FRAME)}
    return found | {"rsp": sp + 8 * len(_SWITCH_FRAME)}
