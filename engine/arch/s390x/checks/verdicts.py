# SPDX-License-Identifier: GPL-2.0-or-later
"""Judges probe points of s390x's code: implements kpfs.engine.judge.Judge."""

from __future__ import annotations

from kpfs.engine.arch.s390x.checks.probe import prepare_kprobe
from kpfs.engine.arch.s390x.insn import Disassembler
from kpfs.engine.judge import Jump
from kpfs.engine.listing import ListingJudge, insn_at, no_jump
from kpfs.engine.step import StepMethod


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
