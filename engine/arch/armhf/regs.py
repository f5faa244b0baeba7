# SPDX-License-Identifier: GPL-2.0-or-later
"""struct pt_regs of armhf, where a kernel has saved it."""

from __future__ import annotations

from kpfs.engine.frame_regs import FrameRegs, register


class FramePtRegs(FrameRegs):
    """The registers at a hit, as a handler sees them.  Context: hit."""

    __slots__ = ()
    WORD = 4
    NAMES = (
        *(f"r{number}" for number in range(11)),
        *("fp", "ip", "sp", "lr", "pc", "cpsr", "orig_r0"),
    )

    r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10 = map(register, range(11))
    fp, ip, sp, lr, pc, cpsr, orig_r0 = map(register, range(11, 18))
