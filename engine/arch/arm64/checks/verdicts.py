# SPDX-License-Identifier: GPL-2.0-or-later
"""Judges probe points of arm64's code: implements kpfs.engine.judge.Judge."""

from __future__ import annotations

from kpfs.engine.arch.arm64.checks.probe import (
    INSN_SIZE,
    prepare_kprobe,
    way_of,
    word_at,
)
from kpfs.engine.arch.arm64.insn import Disassembler
from kpfs.engine.judge import Jump
from kpfs.engine.listing import FixedSizeJudge


class Arm64Judge(FixedSizeJudge):
    """Implements kpfs.engine.judge.Judge.  Context: control."""

    disassembler = Disassembler

    def check_instruction(self, addr: int) -> None:
        prepare_kprobe(self._tables, addr)

    def check_jump(self, addr: int) -> Jump:
        way = way_of(word_at(self._tables, addr)).value
        return Jump(
            INSN_SIZE, f"arm64 has no jump optimisation; this instruction is {way}"
        )
