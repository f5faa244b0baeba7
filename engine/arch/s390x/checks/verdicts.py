# SPDX-License-Identifier: GPL-2.0-or-later
"""Judge by bytes and tables alone whether code of s390x can be probed at an address.

A probe's instruction is stepped elsewhere by PER, whatever it is, and what it has done
to its own address is put right then.  Some are refused, with EINVAL.

Kernel: arch/s390/kernel/kprobes.c, arch/s390/lib/probes.c
"""

from __future__ import annotations

from kpfs.engine.arch.s390x.insn import Disassembler
from kpfs.engine.listing import ListingJudge
from kpfs.engine.step import Pattern

# by the first two bytes
_REFUSED = (
    Pattern(0xFF00, 0x0000, "no instruction"),
    Pattern(0xFF00, 0x0B00, "bsm"),
    Pattern(0xFF00, 0x0C00, "bassm"),
    Pattern(0xFF00, 0x4400, "ex"),
    Pattern(0xFF00, 0x8300, "diag"),
    Pattern(0xFF00, 0xAC00, "stnsm"),
    Pattern(0xFF00, 0xAD00, "stosm"),
    Pattern(0xFF0F, 0xC600, "exrl"),
    Pattern(0xFFFF, 0x0101, "pr"),
    Pattern(0xFFFF, 0xB218, "pc"),
    Pattern(0xFFFF, 0xB228, "pt"),
    Pattern(0xFFFF, 0xB240, "bakr"),
    Pattern(0xFFFF, 0xB258, "bsg"),
    Pattern(0xFFFF, 0xB25A, "bsa"),
    Pattern(0xFFFF, 0xB2F8, "tend"),
    Pattern(0xFFFF, 0xB98D, "epsw"),
    Pattern(0xFFFF, 0xE560, "tbegin"),
    Pattern(0xFFFF, 0xE561, "tbeginc"),
)


class S390xJudge(ListingJudge):
    """Implements kpfs.engine.judge.Judge.  Context: control."""

    arch, words, refused, has_calls = "s390x", Disassembler, _REFUSED, False
