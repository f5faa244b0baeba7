# SPDX-License-Identifier: GPL-2.0-or-later
"""Judge by bytes and tables alone whether code of riscv64 can be probed at an address.

A probe's instruction is stepped elsewhere, or the kernel simulates it because it
depends on its address.  What is neither is refused, with EINVAL.

Kernel: arch/riscv/kernel/probes/kprobes.c, decode-insn.c
"""

from __future__ import annotations

import errno

from kpfs.engine.arch.riscv64.insn import Disassembler
from kpfs.engine.judge import Jump, Tables
from kpfs.engine.listing import ListingJudge
from kpfs.engine.step import Pattern

_DROPS = (
    "; events on it count its hits and record none, as this kernel refuses records "
    "from its breakpoints (it has no ARCH_HAVE_NMI_SAFE_CMPXCHG)"
)
_NMI_SAFE = "CONFIG_ARCH_HAVE_NMI_SAFE_CMPXCHG=y\n"

_REFUSED = (
    Pattern(0x7F, 0x73, "a system instruction"),
    Pattern(0x7F, 0x0F, "a fence"),
    Pattern(0xFFFF, 0x9002, "c.ebreak"),
)
_SIMULATED = (
    Pattern(0x7F, 0x6F, "jal"),
    Pattern(0x707F, 0x67, "jalr"),
    Pattern(0x7F, 0x17, "auipc"),
    Pattern(0x7F, 0x63, "a branch"),
    Pattern(0xE003, 0xA001, "c.j"),
    Pattern(0xE07F, 0x8002, "c.jr or c.jalr"),
    Pattern(0xE003, 0xC001, "c.beqz"),
    Pattern(0xE003, 0xE001, "c.bnez"),
)


class Riscv64Judge(ListingJudge):
    """Implements kpfs.engine.judge.Judge.  Context: control."""

    arch, words = "riscv64", Disassembler
    refused, simulated = _REFUSED, _SIMULATED
    misplaced, knows_begins = errno.EILSEQ, False

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self._drops = ""

    def follow(self, release: str, config: str) -> None:
        super().follow(release, config)
        self._drops = "" if not config or _NMI_SAFE in config else _DROPS

    def check_jump(self, addr: int) -> Jump:
        jump = super().check_jump(addr)
        return jump._replace(why_not=jump.why_not + self._drops)
