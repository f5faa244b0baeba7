# SPDX-License-Identifier: GPL-2.0-or-later
"""struct pt_regs of s390x, where a kernel has saved it."""

from __future__ import annotations

from kpfs.engine.frame_regs import FrameRegs, register


class FramePtRegs(FrameRegs):
    """The registers at a hit, as a handler sees them.  Context: hit."""

    __slots__ = ()
    NAMES = (
        *("args", "pswm", "pswa"),
        *(f"r{number}" for number in range(16)),
        "orig_gpr2",
    )

    args, pswm, pswa = map(register, range(3))
    r0, r1, r2, r3, r4, r5, r6, r7 = map(register, range(3, 11))
    r8, r9, r10, r11, r12, r13, r14, r15 = map(register, range(11, 19))
    orig_gpr2 = register(19)
