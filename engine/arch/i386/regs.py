# SPDX-License-Identifier: GPL-2.0-or-later
"""struct pt_regs of i386, where a kernel has saved it."""

from __future__ import annotations

from kpfs.engine.frame_regs import FrameRegs, register


class FramePtRegs(FrameRegs):
    """The registers at a hit, as a handler sees them.  Context: hit."""

    __slots__ = ()
    WORD = 4
    NAMES = (
        *("bx", "cx", "dx", "si", "di", "bp", "ax", "ds", "es", "fs", "gs"),
        *("orig_ax", "ip", "cs", "flags", "sp", "ss"),
    )

    bx, cx, dx, si, di, bp, ax = map(register, range(7))
    ds, es, fs, gs, orig_ax, ip, cs, flags, sp, ss = map(register, range(7, 17))
