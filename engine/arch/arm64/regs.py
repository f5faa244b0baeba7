# SPDX-License-Identifier: GPL-2.0-or-later
"""struct pt_regs of arm64, where a kernel has saved it.  Kernel: struct user_pt_regs"""

from __future__ import annotations

from kpfs.engine.frame_regs import FrameRegs, register


class FramePtRegs(FrameRegs):
    """The registers at a hit, as a handler sees them.  Context: hit."""

    __slots__ = ()
    NAMES = (*(f"x{number}" for number in range(31)), "sp", "pc", "pstate")

    x0, x1, x2, x3, x4, x5, x6, x7 = map(register, range(8))
    x8, x9, x10, x11, x12, x13, x14, x15 = map(register, range(8, 16))
    x16, x17, x18, x19, x20, x21, x22, x23 = map(register, range(16, 24))
    x24, x25, x26, x27, x28, x29, x30 = map(register, range(24, 31))
    sp, pc, pstate = map(register, range(31, 34))
