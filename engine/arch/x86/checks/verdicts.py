# SPDX-License-Identifier: GPL-2.0-or-later
"""Judges probe points of x86 code: implements kpfs.engine.judge.Judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kpfs.base.ktypes import KAddr
from kpfs.base.x86 import NOP5
from kpfs.engine.arch.x86.checks.optimize import Region, can_optimize
from kpfs.engine.arch.x86.checks.probe import (
    JMP32_INSN_SIZE,
    KernelView,
    arch_adjust_kprobe_addr,
    decode_at,
    prepare_kprobe,
    rules_of,
)
from kpfs.engine.arch.x86.insn import (
    Disassembler,
    Insn,
    Line,
    decode_all,
    disassemble,
    is_direct_branch,
)
from kpfs.engine.judge import Jump, Tables

FUNCTION_ALIGN = 16
_UD2 = b"\x0f\x0b"
_PADDING = (b"\xcc", b"\x90", b"\x0f\x1f")  # int3 and nops
# the 2-byte nop, that of i386, and the jump in its place
_JUMP_LABEL_SHORT = (b"\x66\x90", b"\x89\xf6", b"\xeb")
# ret, iret, jmp, and call, which may be of a function that does not return
_MAY_END_FUNCTION = frozenset(b"\xc2\xc3\xca\xcb\xcf\xe8\xe9\xea\xeb")


class X86Judge:
    """Implements kpfs.engine.judge.DumpJudge.  Context: control."""

    kprobes_on_ftrace = True
    behind_entry = (
        "behind the landing pad: an indirect call of it is a fault on a processor with "
        "IBT"
    )

    def __init__(self, tables: Tables, bits: int = 64) -> None:
        self.text = KernelView(tables, bits=bits)
        self._dis: Disassembler | None = None

    def follow(self, release: str, config: str) -> None:
        self.text.rules = rules_of(release, config)

    def arch_adjust_kprobe_addr(self, addr: KAddr, offset: int) -> tuple[KAddr, bool]:
        """MemoryFault is raised for a dump that lacks addr; a kernel has it."""
        self.text.code(addr, 1)
        at, on_entry = arch_adjust_kprobe_addr(self.text, addr, offset)
        return KAddr(at), on_entry

    def kprobe_lookup_name(self, addr: KAddr, offset: int) -> KAddr:
        return addr

    def arch_within_kprobe_blacklist(self, addr: KAddr) -> bool:
        """Return True if addr is in the section of __kprobes functions."""
        start, end = self.text.kprobes_text
        return start <= addr < end

    def check_instruction(self, addr: int) -> None:
        self.text.code(addr, 1)
        prepare_kprobe(self.text, addr)

    def check_jump(self, addr: int) -> Jump:
        verdict = can_optimize(self.text, addr)
        if isinstance(verdict, Region):
            return Jump(len(verdict.code))
        return Jump(self._covered(addr), str(verdict), verdict.addr)

    def _covered(self, addr: int) -> int:
        """Return the bytes that a jump would cover, where it is impossible."""
        size = 0
        while size < JMP32_INSN_SIZE:
            insn = decode_at(self.text, addr + size)
            if insn is None:
                return max(size, 1)
            size += insn.length
        return size

    def listing(
        self, addr: int, size: int, name: Callable[[int], str]
    ) -> Sequence[Line]:
        """List instructions as decoding the function from its start cuts them."""
        self._dis = self._dis or Disassembler(self.text.bits)
        fn = self.text.function(addr)
        start = addr
        if fn is not None and addr not in fn.index:
            start = max((at for at in fn.index if at < addr), default=addr)
        end = start
        while end < addr + size:
            insn = decode_at(self.text, end)
            end += insn.length if insn else 1
        return disassemble(self.text.code(start, end - start), start, self._dis, name)

    def entry_sites(self, code: bytes, addr: int) -> list[int]:
        """Return the nop at the entry, and those of functions without a symbol.

        A weak function that lost to another has no symbol but still its site: a nop on
        a function's alignment that the code around neither runs into nor jumps to.
        """
        if NOP5 not in code:
            return []
        insns = list(decode_all(code, addr, len(code)))
        jumped_to = {insn.target for insn in insns if is_direct_branch(insn)}
        sites = []
        runs_in = False
        for insn in insns:
            at = insn.addr
            entry = at % FUNCTION_ALIGN == 0 and not runs_in and at not in jumped_to
            if insn.raw == NOP5 and (entry or at == addr):
                sites.append(at)
            runs_in = _runs_on(insn, runs_in)
        return sites

    def bug_sites(self, code: bytes, addr: int) -> list[int]:
        """Every ud2: those in functions that can be probed come from BUG and WARN."""
        if _UD2 not in code:
            return []
        insns = decode_all(code, addr, len(code))
        return [insn.addr for insn in insns if insn.opcode == _UD2]

    def jump_label_size(self, code: bytes) -> int:
        return 2 if code.startswith(_JUMP_LABEL_SHORT) else 5


def _runs_on(insn: Insn, runs_in: bool) -> bool:
    """Return True if control goes on behind insn, which it reaches if runs_in."""
    if insn.opcode[0] in _MAY_END_FUNCTION or insn.opcode == _UD2:
        return False
    return runs_in if insn.opcode in _PADDING else True
