# SPDX-License-Identifier: GPL-2.0-or-later
"""Judges probe points of armhf's code: implements kpfs.engine.judge.Judge."""

from __future__ import annotations

from kpfs.base.ktypes import KAddr
from kpfs.engine.arch.armhf.checks.probe import prepare_kprobe
from kpfs.engine.arch.armhf.insn import Disassembler
from kpfs.engine.judge import Jump, Tables, symbol_range
from kpfs.engine.listing import FIXED_SIZE, ListingJudge

_REFUSED_TEXT = "irqentry_text", "entry_text", "idmap_text"


class ArmhfJudge(ListingJudge):
    """Implements kpfs.engine.judge.Judge.  Context: control."""

    words = Disassembler

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self._refused = [
            symbol_range(tables, f"__{name}_start", f"__{name}_end")
            for name in _REFUSED_TEXT
        ]
        self._jumps = True

    def follow(self, release: str, config: str) -> None:
        super().follow(release, config)
        self._jumps = "CONFIG_OPTPROBES=y\n" in config

    def arch_within_kprobe_blacklist(self, addr: KAddr) -> bool:
        """Return True in text of entries and of __kprobes, and where no MMU may be."""
        return super().arch_within_kprobe_blacklist(addr) or any(
            start <= addr < end for start, end in self._refused
        )

    def check_instruction(self, addr: int) -> None:
        prepare_kprobe(self._tables, addr)

    def check_jump(self, addr: int) -> Jump:
        """Judge the jump, which takes the place of one instruction, whichever it is."""
        why_not = "" if self._jumps else "the kernel lacks CONFIG_OPTPROBES"
        return Jump(FIXED_SIZE, why_not)
