# SPDX-License-Identifier: GPL-2.0-or-later
"""Judges probe points of s390x's code: implements kpfs.engine.judge.Judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kpfs.engine.arch.s390x.checks.probe import insn_at, prepare_kprobe
from kpfs.engine.arch.s390x.insn import LONGEST, UNIT, Disassembler, size_of
from kpfs.engine.judge import Jump, StepJudge, Tables
from kpfs.engine.listing import instructions
from kpfs.engine.step import StepMethod

_NO_JUMPS = (
    f"s390x has no jump optimisation; this instruction is {StepMethod.STEPPED.value}"
)


class S390xJudge(StepJudge):
    """Implements kpfs.engine.judge.Judge.  Context: control."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self._dis: Disassembler | None = None

    def check_instruction(self, addr: int) -> None:
        site = self._tables.text.ftrace_location(addr, addr)
        if not (self.kprobes_on_ftrace and site == addr):
            prepare_kprobe(self._tables, addr)

    def check_jump(self, addr: int) -> Jump:
        return Jump(len(insn_at(self._tables, addr)), _NO_JUMPS)

    def listing(
        self, addr: int, size: int, name: Callable[[int], str]
    ) -> Sequence[tuple[int, bytes, str]]:
        dis = self._dis = self._dis or Disassembler()
        start, end = addr - addr % UNIT, addr + size
        code = self._tables.read(start, end + end % UNIT - start)
        rows = []
        for at, cut in instructions(code, size_of):
            raw = (
                insn_at(self._tables, start + at) if at + len(cut) == len(code) else cut
            )
            rows.append((start + at, raw, dis.named(raw, start + at, name)))
        return rows

    def jump_label_size(self, code: bytes) -> int:
        return LONGEST
