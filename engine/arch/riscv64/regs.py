# SPDX-License-Identifier: GPL-2.0-or-later
"""struct pt_regs of riscv64, where a kernel has saved it."""

from __future__ import annotations

from kpfs.engine.frame_regs import FrameRegs, register


class FramePtRegs(FrameRegs):
    """The registers at a hit, as a handler sees them.  Context: hit."""

    __slots__ = ()
    NAMES = (
        *("epc", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1"),
        *(f"a{number}" for number in range(8)),
        *(f"s{number}" for number in range(2, 12)),
        *("t3", "t4", "t5", "t6", "status", "badaddr", "cause", "orig_a0"),
    )

    epc, ra, sp, gp, tp, t0, t1, t2, s0, s1 = map(register, range(10))
    a0, a1, a2, a3, a4, a5, a6, a7 = map(register, range(10, 18))
    s2, s3, s4, s5, s6, s7, s8, s9, s10, s11 = map(register, range(18, 28))
    t3, t4, t5, t6 = map(register, range(28, 32))
    status, badaddr, cause, orig_a0 = map(register, range(32, 36))
