# SPDX-License-Identifier: GPL-2.0-or-later
"""Judges probe points of arm64's code: implements kpfs.engine.judge.Judge."""

from __future__ import annotations

from kpfs.engine.arch.arm64.checks.probe import prepare_kprobe, way_of
from kpfs.engine.arch.arm64.insn import Disassembler
from kpfs.engine.judge import Jump
from kpfs.engine.listing import FIXED_SIZE, ListingJudge, no_jump, word_at


class Arm64Judge(ListingJudge):
    """Implements kpfs.engine.judge.Judge.  Context: control."""

    words = Disassembler

    def check_instruction(self, addr: int) -> None:
        prepare_kprobe(self._tables, addr)

    def check_jump(self, addr: int) -> Jump:
        return no_jump("arm64", FIXED_SIZE, way_of(word_at(self._tables, addr)))
