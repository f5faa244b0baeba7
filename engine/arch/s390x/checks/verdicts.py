# SPDX-License-Identifier: GPL-2.0-or-later
"""Judge by bytes and tables alone whether code of s390x can be probed at an address.

A probe's instruction is stepped elsewhere by PER, whatever it is, and what it has done
to its own address is put right then.  Some are refused, with EINVAL.

Kernel: arch/s390/kernel/kprobes.c, arch/s390/lib/probes.c
"""

from __future__ import annotations

import errno

from kpfs.base.data_model import BIG_64
from kpfs.base.errors import KernelError
from kpfs.engine.arch.s390x.insn import Disassembler
from kpfs.engine.judge import Jump, Tables
from kpfs.engine.listing import ListingJudge, begins_at, insn_at, no_jump
from kpfs.engine.step import Pattern, StepMethod, refuse

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


def prepare_kprobe(tables: Tables, addr: int) -> None:
    """Raise what the kernel's function raises for the instruction at an address.

    Raises MemoryFault if its bytes are not there.  Kernel: arch_prepare_kprobe()
    """
    if not begins_at(tables, addr, Disassembler):
        raise KernelError(errno.EINVAL, "no instruction begins there")
    refuse(_REFUSED, BIG_64.number(tables.read(addr, Disassembler.unit)))


class S390xJudge(ListingJudge):
    """Implements kpfs.engine.judge.Judge.  Context: control."""

    words = Disassembler

    def check_instruction(self, addr: int) -> None:
        site = self._tables.text.ftrace_location(addr, addr)
        if not (self.kprobes_on_ftrace and site == addr):
            prepare_kprobe(self._tables, addr)

    def check_jump(self, addr: int) -> Jump:
        size = len(insn_at(self._tables, addr, Disassembler))
        return no_jump("s390x", size, StepMethod.STEPPED)
