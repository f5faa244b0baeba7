# SPDX-License-Identifier: GPL-2.0-or-later
"""struct pt_regs of ppc64, where a kernel has saved it."""

from __future__ import annotations

from kpfs.engine.frame_regs import FrameRegs, register


class FramePtRegs(FrameRegs):
    """The registers at a hit, as a handler sees them.  Context: hit."""

    __slots__ = ()
    NAMES = (
        *(f"gpr{number}" for number in range(32)),
        *("nip", "msr", "orig_gpr3", "ctr", "link", "xer", "ccr"),
        *("softe", "trap", "dar", "dsisr", "result"),
    )

    gpr0, gpr1, gpr2, gpr3, gpr4, gpr5, gpr6, gpr7 = map(register, range(8))
    gpr8, gpr9, gpr10, gpr11, gpr12, gpr13, gpr14, gpr15 = map(register, range(8, 16))
    gpr16, gpr17, gpr18, gpr19, gpr20, gpr21, gpr22, gpr23 = map(
        register, range(16, 24)
    )
    gpr24, gpr25, gpr26, gpr27, gpr28, gpr29, gpr30, gpr31 = map(
        register, range(24, 32)
    )
    nip, msr, orig_gpr3, ctr, link, xer, ccr = map(register, range(32, 39))
    softe, trap, dar, dsisr, result = map(register, range(39, 44))
