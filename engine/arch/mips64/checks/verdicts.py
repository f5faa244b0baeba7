# SPDX-License-Identifier: GPL-2.0-or-later
"""Judge by bytes and tables alone whether code of mips64 can be probed at an address.

A break takes the place of a probed instruction.  The kernel steps over a copy of it, or
of what is behind a branch, whose target it computes.  It refuses with EINVAL what is in
the delay slot of a branch, and ll and sc.  It takes any address for an instruction's.

Kernel: arch/mips/kernel/kprobes.c, branch.c, probes-common.h
"""

from __future__ import annotations

import contextlib
import errno

from kpfs.base.errors import KernelError, MemoryFault
from kpfs.engine.arch.mips64.insn import Disassembler, has_delay_slot
from kpfs.engine.judge import Jump
from kpfs.engine.listing import FIXED_SIZE, ListingJudge
from kpfs.engine.step import Pattern, StepMethod

_SPOILS = "the kernel does not see that no instruction begins there, and spoils two"

_OPCODE = 0x3F << 26
_REFUSED = (
    Pattern(_OPCODE, 0x30 << 26, "ll"),
    Pattern(_OPCODE, 0x34 << 26, "lld"),
    Pattern(_OPCODE, 0x38 << 26, "sc"),
    Pattern(_OPCODE, 0x3C << 26, "scd"),
)


class Mips64Judge(ListingJudge):
    """Implements kpfs.engine.judge.Judge.  Context: control."""

    arch, words, refused, misplaced = "mips64", Disassembler, _REFUSED, 0

    def way_of(self, word: int) -> StepMethod:
        way = super().way_of(word)
        return StepMethod.SIMULATED if has_delay_slot(word) else way

    def check_instruction(self, addr: int) -> None:
        super().check_instruction(addr)
        with contextlib.suppress(MemoryFault):
            if has_delay_slot(self.word_at(addr - FIXED_SIZE)):
                why = "it is in the delay slot of the branch before it"
                raise KernelError(errno.EINVAL, why)

    def check_jump(self, addr: int) -> Jump:
        return (
            Jump(FIXED_SIZE, _SPOILS) if addr % FIXED_SIZE else super().check_jump(addr)
        )
