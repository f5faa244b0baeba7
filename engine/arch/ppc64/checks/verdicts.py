# SPDX-License-Identifier: GPL-2.0-or-later
"""Judges probe points of ppc64's code: implements kpfs.engine.judge.Judge."""

from __future__ import annotations

from kpfs.base.ktypes import KAddr
from kpfs.engine.arch.ppc64.checks.probe import (
    LOCAL_ENTRY,
    is_computed,
    local_entry,
    prepare_kprobe,
)
from kpfs.engine.arch.ppc64.insn import Disassembler
from kpfs.engine.judge import SITE, Jump, Tables, symbol_range
from kpfs.engine.listing import FIXED_SIZE, ListingJudge, word_at

_OUTSIDE = "it is not in the kernel's own text, from which a jump reaches its buffers"
_NOT_COMPUTED = "the kernel cannot emulate it from registers, or tell what is next"


class Ppc64Judge(ListingJudge):
    """Implements kpfs.engine.judge.Judge.  Context: control."""

    words = Disassembler

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self.behind_entry = "behind what loads r2, which callers nearby leave out"
        self.most_jumps = 0
        self._head = symbol_range(tables, "_stext", "__head_end")
        self._text = symbol_range(tables, "_stext", "_etext")
        self._template = symbol_range(
            tables, "optprobe_template_entry", "optprobe_template_end"
        )

    def follow(self, release: str, config: str) -> None:
        super().follow(release, config)
        start, end = self._template
        page = 1 << (16 if "CONFIG_PPC_64K_PAGES=y\n" in config else 12)
        # one is the kernel's own, for returns
        self.most_jumps = page // (end - start) - 1 if start else 0

    def kprobe_lookup_name(self, addr: KAddr, offset: int) -> KAddr:
        if offset:
            return addr
        site = self._site(addr) if self.kprobes_on_ftrace else None
        return KAddr(local_entry(self._tables, addr)) if site is None else site

    def arch_adjust_kprobe_addr(self, addr: KAddr, offset: int) -> tuple[KAddr, bool]:
        site = self._site(addr)
        last = LOCAL_ENTRY if site is None else site - addr
        return KAddr(addr + offset), offset <= last

    def _site(self, addr: int) -> KAddr | None:
        return self._tables.text.ftrace_location(addr, addr + SITE)

    def arch_within_kprobe_blacklist(self, addr: KAddr) -> bool:
        start, end = self._head
        return start <= addr < end or super().arch_within_kprobe_blacklist(addr)

    def check_instruction(self, addr: int) -> None:
        prepare_kprobe(self._tables, addr)

    def check_jump(self, addr: int) -> Jump:
        start, end = self._text
        if not start <= addr < end:
            return Jump(FIXED_SIZE, _OUTSIDE)
        computed = is_computed(word_at(self._tables, addr))
        why_not = "" if computed else _NOT_COMPUTED
        return Jump(FIXED_SIZE, why_not, most=self.most_jumps)
