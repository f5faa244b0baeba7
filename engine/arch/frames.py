# SPDX-License-Identifier: GPL-2.0-or-later
"""The words of struct pt_regs, from low to high addresses, of each architecture.

x86-64's is x86/regs.py, as the guest kernel uses it at each hit.
"""

from __future__ import annotations

from kpfs.engine.frame_regs import FrameRegs


class Arm64Regs(FrameRegs):
    """Kernel: struct user_pt_regs"""

    __slots__ = ()
    NAMES = (*(f"x{number}" for number in range(31)), "sp", "pc", "pstate")


class ArmhfRegs(FrameRegs):
    __slots__ = ()
    WORD = 4
    NAMES = (
        *(f"r{number}" for number in range(11)),
        *("fp", "ip", "sp", "lr", "pc", "cpsr", "orig_r0"),
    )


class I386Regs(FrameRegs):
    __slots__ = ()
    WORD = 4
    NAMES = (
        *("bx", "cx", "dx", "si", "di", "bp", "ax", "ds", "es", "fs", "gs"),
        *("orig_ax", "ip", "cs", "flags", "sp", "ss"),
    )


class Mips64Regs(FrameRegs):
    __slots__ = ()
    NAMES = (
        *(f"r{number}" for number in range(32)),
        *("c0_status", "hi", "lo", "c0_badvaddr", "c0_cause", "c0_epc"),
    )


class Ppc64Regs(FrameRegs):
    __slots__ = ()
    NAMES = (
        *(f"gpr{number}" for number in range(32)),
        *("nip", "msr", "orig_gpr3", "ctr", "link", "xer", "ccr"),
        *("softe", "trap", "dar", "dsisr", "result"),
    )


class Riscv64Regs(FrameRegs):
    __slots__ = ()
    NAMES = (
        *("epc", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1"),
        *(f"a{number}" for number in range(8)),
        *(f"s{number}" for number in range(2, 12)),
        *("t3", "t4", "t5", "t6", "status", "badaddr", "cause", "orig_a0"),
    )


class S390xRegs(FrameRegs):
    __slots__ = ()
    NAMES = (
        *("args", "pswm", "pswa"),
        *(f"r{number}" for number in range(16)),
        "orig_gpr2",
    )
