# SPDX-License-Identifier: GPL-2.0-or-later
"""The processor's registers by libunicorn's numbers, in the order of images."""

from __future__ import annotations

# UC_X86_REG_*; the order of an image's words
GENERAL = {
    "rax": 35, "rcx": 38, "rdx": 40, "rbx": 37, "rsp": 44, "rbp": 36, "rsi": 43,
    "rdi": 39, "r8": 106, "r9": 107, "r10": 108, "r11": 109, "r12": 110, "r13": 111,
    "r14": 112, "r15": 113, "rip": 41, "rflags": 253,
}  # fmt: skip
CONTROL = {"cr0": 50, "cr2": 52, "cr3": 53, "cr4": 54}
FPU = {"fpcw": 246, "mxcsr": 249}
MSR = 248
TABLES = {"gdtr": 243, "idtr": 242, "ldtr": 244, "tr": 245}
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
    "apic_base": 0x1B,
    "sysenter_cs": 0x174,
    "sysenter_esp": 0x175,
    "sysenter_eip": 0x176,
    "pat": 0x277,
    "misc_enable": 0x1A0,
}
