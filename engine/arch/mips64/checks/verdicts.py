# SPDX-License-Identifier: GPL-2.0-or-later
"""Judges probe points of mips64's code: implements kpfs.engine.judge.Judge."""

from __future__ import annotations

from kpfs.engine.arch.mips64.checks.probe import prepare_kprobe, way_of
from kpfs.engine.arch.mips64.insn import Disassembler
from kpfs.engine.judge import Jump
from kpfs.engine.listing import FIXED_SIZE, ListingJudge, no_jump, word_at

_SPOILS = "the kernel does not see that no instruction begins there, and spoils two"


class Mips64Judge(ListingJudge):
    """Implements kpfs.engine.judge.Judge.  Context: control."""

    words = Disassembler

    def check_instruction(self, addr: int) -> None:
        prepare_kprobe(self._tables, addr)

    def check_jump(self, addr: int) -> Jump:
        if addr % FIXED_SIZE:
            return Jump(FIXED_SIZE, _SPOILS)
        return no_jump("mips64", FIXED_SIZE, way_of(word_at(self._tables, addr)))
