# SPDX-License-Identifier: GPL-2.0-or-later
"""Judges probe points of mips64's code: implements kpfs.engine.judge.Judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kpfs.engine.arch.mips64.checks.probe import prepare_kprobe, way_of, word_at
from kpfs.engine.arch.mips64.insn import Disassembler
from kpfs.engine.judge import Jump, StepJudge, Tables
from kpfs.engine.listing import FIXED_SIZE

_NO_JUMPS = "mips64 has no jump optimisation; this instruction is"
_SPOILS = "the kernel does not see that no instruction begins there, and spoils two"


class Mips64Judge(StepJudge):
    """Implements kpfs.engine.judge.Judge.  Context: control."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self._dis: Disassembler | None = None

    def check_instruction(self, addr: int) -> None:
        prepare_kprobe(self._tables, addr)

    def check_jump(self, addr: int) -> Jump:
        if addr % FIXED_SIZE:
            return Jump(FIXED_SIZE, _SPOILS)
        way = way_of(word_at(self._tables, addr))
        return Jump(FIXED_SIZE, f"{_NO_JUMPS} {way.value}")

    def listing(
        self, addr: int, size: int, name: Callable[[int], str]
    ) -> Sequence[tuple[int, bytes, str]]:
        dis = self._dis = self._dis or Disassembler()
        start, end = addr - addr % FIXED_SIZE, addr + size
        code = self._tables.read(start, end + -end % FIXED_SIZE - start)
        return dis.rows(code, start, name)

    def jump_label_size(self, code: bytes) -> int:
        return FIXED_SIZE
