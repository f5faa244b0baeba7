# SPDX-License-Identifier: GPL-2.0-or-later
"""Judges probe points of arm64's code: implements kpfs.engine.judge.Judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kpfs.base.ktypes import KAddr
from kpfs.engine.arch.arm64.checks.probe import (
    INSN_SIZE,
    prepare_kprobe,
    way_of,
    word_at,
)
from kpfs.engine.arch.arm64.insn import Disassembler
from kpfs.engine.judge import Jump, Tables, kprobes_text


class Arm64Judge:
    """Implements kpfs.engine.judge.Judge.  Context: control."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._kprobes_text = kprobes_text(tables)
        self.kprobes_on_ftrace = False
        self._dis: Disassembler | None = None

    def follow(self, release: str, config: str) -> None:
        self.kprobes_on_ftrace = "CONFIG_KPROBES_ON_FTRACE=y\n" in config

    def arch_adjust_kprobe_addr(self, addr: KAddr, offset: int) -> tuple[KAddr, bool]:
        return KAddr(addr + offset), not offset

    def arch_within_kprobe_blacklist(self, addr: KAddr) -> bool:
        """Return True if addr is in the section of __kprobes functions."""
        start, end = self._kprobes_text
        return start <= addr < end

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
        start, end = addr - addr % INSN_SIZE, addr + size
        code = self._tables.read(start, end + -end % INSN_SIZE - start)
        rows = []
        for at in range(0, len(code) - INSN_SIZE + 1, INSN_SIZE):
            raw = code[at : at + INSN_SIZE]
            rows.append((start + at, raw, dis.named(raw, start + at, name)))
        return rows

    def jump_label_size(self, code: bytes) -> int:
        return INSN_SIZE
