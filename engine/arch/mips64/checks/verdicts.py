# SPDX-License-Identifier: GPL-2.0-or-later
"""Judge by bytes and tables alone whether code of mips64 can be probed at an address.

A break takes the place of a probed instruction.  The kernel steps over a copy of it, or
of what is behind a branch, whose target it computes.  It refuses with EINVAL what is in
the delay slot of a branch, and ll and sc.  It takes any address for an instruction's.

Kernel: arch/mips/kernel/kprobes.c, branch.c, probes-common.h
"""

from __future__ import annotations

import errno

from kpfs.base.errors import KernelError, MemoryFault
from kpfs.engine.arch.mips64.insn import Disassembler, has_delay_slot
from kpfs.engine.judge import Jump, Tables
from kpfs.engine.listing import (
    FIXED_SIZE,
    NO_PROBES_ON_FTRACE,
    ListingJudge,
    no_jump,
    refuse_ftrace,
    word_at,
)
from kpfs.engine.step import Pattern, StepMethod, refuse

_SPOILS = "the kernel does not see that no instruction begins there, and spoils two"

_OPCODE = 0x3F << 26
_REFUSED = (
    Pattern(_OPCODE, 0x30 << 26, "ll"),
    Pattern(_OPCODE, 0x34 << 26, "lld"),
    Pattern(_OPCODE, 0x38 << 26, "sc"),
    Pattern(_OPCODE, 0x3C << 26, "scd"),
)


def way_of(word: int) -> StepMethod:
    """Return how an instruction has its effect; EINVAL if it cannot be probed."""
    refuse(_REFUSED, word)
    return StepMethod.SIMULATED if has_delay_slot(word) else StepMethod.STEPPED


def prepare_kprobe(tables: Tables, addr: int) -> None:
    """Raise what the kernel's function raises for the instruction at an address.

    Raises MemoryFault if its bytes are not there.  Kernel: arch_prepare_kprobe()
    """
    refuse_ftrace(tables, addr, NO_PROBES_ON_FTRACE)
    way_of(word_at(tables, addr))
    try:
        before = word_at(tables, addr - FIXED_SIZE)
    except MemoryFault:
        return
    if has_delay_slot(before):
        why = "it is in the delay slot of the branch before it"
        raise KernelError(errno.EINVAL, why)


class Mips64Judge(ListingJudge):
    """Implements kpfs.engine.judge.Judge.  Context: control."""

    words = Disassembler

    def check_instruction(self, addr: int) -> None:
        prepare_kprobe(self._tables, addr)

    def check_jump(self, addr: int) -> Jump:
        if addr % FIXED_SIZE:
            return Jump(FIXED_SIZE, _SPOILS)
        return no_jump("mips64", FIXED_SIZE, way_of(word_at(self._tables, addr)))
