# SPDX-License-Identifier: GPL-2.0-or-later
"""Judges probe points of arm64's code: implements kpfs.engine.judge.Judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kpfs.engine.arch.arm64.checks.probe import (
    INSN_SIZE,
    prepare_kprobe,
    way_of,
    word_at,
)
from kpfs.engine.arch.arm64.insn import Disassembler
from kpfs.engine.judge import Jump, StepJudge, Tables


class Arm64Judge(StepJudge):
    """Implements kpfs.engine.judge.Judge.  Context: control."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self._dis: Disassembler | None = None

    def check_instruction(self, addr: int) -> None:
        prepare_kprobe(self._tables, addr)

    def check_jump(self, addr: int) -> Jump:
        way = way_of(word_at(self._tables, addr)).value
        return Jump(
            INSN_SIZE, f"arm64 has no jump optimisation; this instruction is {way}"
        )

    def listing(
        self, addr: int, size: int, name: Callable[[int], str]
    ) -> Sequence[tuple[int, bytes, str]]:
        dis = self._dis = self._dis or Disassembler()
        return dis.around(self._tables.read, addr, size, name)

    def jump_label_size(self, code: bytes) -> int:
        return INSN_SIZE
