# SPDX-License-Identifier: GPL-2.0-or-later
"""struct pt_regs of mips64, where a kernel has saved it."""

from __future__ import annotations

from kpfs.engine.frame_regs import FrameRegs, register


class FramePtRegs(FrameRegs):
    """The registers at a hit, as a handler sees them.  Context: hit."""

    __slots__ = ()
    NAMES = (
        *(f"r{number}" for number in range(32)),
        *("c0_status", "hi", "lo", "c0_badvaddr", "c0_cause", "c0_epc"),
    )

    r0, r1, r2, r3, r4, r5, r6, r7 = map(register, range(8))
    r8, r9, r10, r11, r12, r13, r14, r15 = map(register, range(8, 16))
    r16, r17, r18, r19, r20, r21, r22, r23 = map(register, range(16, 24))
    r24, r25, r26, r27, r28, r29, r30, r31 = map(register, range(24, 32))
    c0_status, hi, lo = map(register, range(32, 35))
    c0_badvaddr, c0_cause, c0_epc = map(register, range(35, 38))
