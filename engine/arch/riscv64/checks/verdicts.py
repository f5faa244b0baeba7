# SPDX-License-Identifier: GPL-2.0-or-later
"""Judges probe points of riscv64's code: implements kpfs.engine.judge.Judge."""

from __future__ import annotations

from kpfs.engine.arch.riscv64.checks.probe import prepare_kprobe, way_of
from kpfs.engine.arch.riscv64.insn import Disassembler
from kpfs.engine.judge import Jump, Tables
from kpfs.engine.listing import ListingJudge, insn_at, no_jump

_DROPS = (
    "; events on it count its hits and record none, as this kernel refuses records "
    "from its breakpoints (it has no ARCH_HAVE_NMI_SAFE_CMPXCHG)"
)
_NMI_SAFE = "CONFIG_ARCH_HAVE_NMI_SAFE_CMPXCHG=y\n"


class Riscv64Judge(ListingJudge):
    """Implements kpfs.engine.judge.Judge.  Context: control."""

    words = Disassembler

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self._drops = ""

    def follow(self, release: str, config: str) -> None:
        super().follow(release, config)
        self._drops = "" if not config or _NMI_SAFE in config else _DROPS

    def check_instruction(self, addr: int) -> None:
        prepare_kprobe(self._tables, addr)

    def check_jump(self, addr: int) -> Jump:
        raw = insn_at(self._tables, addr, Disassembler)
        jump = no_jump("riscv64", len(raw), way_of(raw))
        return jump._replace(why_not=jump.why_not + self._drops)
