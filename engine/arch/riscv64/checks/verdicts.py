# SPDX-License-Identifier: GPL-2.0-or-later
"""Judges probe points of riscv64's code: implements kpfs.engine.judge.Judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kpfs.engine.arch.riscv64.checks.probe import insn_at, prepare_kprobe, way_of
from kpfs.engine.arch.riscv64.insn import LONG, SHORT, Disassembler, size_of
from kpfs.engine.judge import Jump, StepJudge, Tables
from kpfs.engine.listing import instructions

_DROPS = (
    "; events on it count its hits and record none, as this kernel refuses records "
    "from its breakpoints (it has no ARCH_HAVE_NMI_SAFE_CMPXCHG)"
)
_NMI_SAFE = "CONFIG_ARCH_HAVE_NMI_SAFE_CMPXCHG=y\n"
_NO_JUMPS = "riscv64 has no jump optimisation; this instruction is"


class Riscv64Judge(StepJudge):
    """Implements kpfs.engine.judge.Judge.  Context: control."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self._dis: Disassembler | None = None
        self._drops = ""

    def follow(self, release: str, config: str) -> None:
        super().follow(release, config)
        self._drops = "" if not config or _NMI_SAFE in config else _DROPS

    def check_instruction(self, addr: int) -> None:
        prepare_kprobe(self._tables, addr)

    def check_jump(self, addr: int) -> Jump:
        raw = insn_at(self._tables, addr)
        return Jump(len(raw), f"{_NO_JUMPS} {way_of(raw).value}{self._drops}")

    def listing(
        self, addr: int, size: int, name: Callable[[int], str]
    ) -> Sequence[tuple[int, bytes, str]]:
        dis = self._dis = self._dis or Disassembler()
        start, end = addr - addr % SHORT, addr + size
        code = self._tables.read(start, end + end % SHORT - start)
        rows = []
        for at, raw in instructions(code, size_of):
            if len(raw) < size_of(raw):
                raw = insn_at(self._tables, start + at)
            rows.append((start + at, raw, dis.named(raw, start + at, name)))
        return rows

    def jump_label_size(self, code: bytes) -> int:
        return LONG
