# SPDX-License-Identifier: GPL-2.0-or-later
"""Judge whether the instructions at a probe can be replaced by a jump.

Terms of the documentation: the *detoured code region* (DCR) are the whole instructions
from the probe on that the 5 bytes of the jump touch; into the *jump target prohibition
region* (JTPR), the bytes behind the first one, no jump and no call may lead.  As these
are sought by decoding, the whole function must decode, and must not jump where decoding
cannot see: through a register, through a retpoline, or out of an exception fix-up.

The documentation names calls beside jumps; Linux 6.1 does not look at calls, and would
let a function that calls into the region run into the middle of the jump.

    can_optimize(text, addr) -> Region          what the jump would replace
                              | Obstacle        why it cannot: kind, words, culprit

Kernel: arch/x86/kernel/kprobes/opt.c.
"""

from __future__ import annotations

import enum
from bisect import bisect_left

from kpfs.base.errors import KernelError, MemoryFault
from kpfs.base.typed import NamedTuple
from kpfs.engine.arch.x86.checks.probe import (
    JMP32_INSN_SIZE,
    DecodedFunction,
    KernelView,
    check_copy,
    has_boostable_opcode,
    is_prefix,
)
from kpfs.engine.arch.x86.insn import Insn, decode


class Why(enum.Enum):
    """The reason why a probe stays a breakpoint."""

    NO_SYMBOL = "no function around the address"
    ENTRY_TEXT = "kernel entry code"
    NO_ROOM = "fewer than 5 bytes to the end of the function"
    EXCEPTION = "the function has an instruction with a fix-up"
    UNDECODABLE = "the function has bytes that do not decode"
    INDIRECT_JUMP = "the function has an indirect jump"
    THUNK_JUMP = "the function jumps to a retpoline"
    JUMP_INTO = "a jump goes into the region"
    CALL_INTO = "a call goes into the region"
    NOT_RELOCATABLE = "an instruction of the region cannot run elsewhere"
    NOT_BOOSTABLE = "an instruction of the region needs a single step"
    RESERVED = "the region overlaps text that others patch"
    UNKNOWN = "bytes of the region are not known"


class Region(NamedTuple):
    """The instructions that a jump at the probe replaces."""

    insns: list[Insn]
    code: bytes  # their bytes, 5 or more.  Kernel: optinsn.size


class Obstacle(NamedTuple):
    """The reason why there can be no jump."""

    why: Why
    addr: int  # the instruction to blame; 0: none in particular
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.why.value}: {self.detail}" if self.detail else self.why.value


def can_optimize(text: KernelView, addr: int) -> Region | Obstacle:
    """Return the region that a jump at addr would replace, or what forbids it.

    Context: control.  Kernel: can_optimize(), copy_optimized_instructions().
    """
    try:
        fn = text.function(addr)
    except MemoryFault:
        return Obstacle(Why.UNKNOWN, 0)
    if fn is None:
        return Obstacle(Why.NO_SYMBOL, 0)
    first, end = text.entry_text
    if first <= addr < end:
        return Obstacle(Why.ENTRY_TEXT, 0)
    left = fn.start + fn.size - addr
    if left < JMP32_INSN_SIZE:
        return Obstacle(Why.NO_ROOM, 0, f"{left} left")
    return scan_function(text, fn, addr) or covered_region(text, fn, addr)


def scan_function(text: KernelView, fn: DecodedFunction, addr: int) -> Obstacle | None:
    """Return what forbids a jump in the function.  Kernel: can_optimize()."""
    found: list[Obstacle] = []
    if fn.fixup is not None:
        found.append(Obstacle(Why.EXCEPTION, fn.fixup))
    if fn.bad is not None:
        found.append(Obstacle(Why.UNDECODABLE, fn.bad))
    if fn.indirect is not None and text.rules.jump_tables:
        found.append(Obstacle(Why.INDIRECT_JUMP, fn.indirect.addr))
    first, last = text.indirect_thunks
    if last and text.rules.jump_tables:
        _find_jump(found, fn, first, last, Why.THUNK_JUMP)
    _find_jump(found, fn, addr + 1, addr + JMP32_INSN_SIZE, Why.JUMP_INTO)
    for target, at in fn.calls:
        if addr < target < addr + JMP32_INSN_SIZE:
            found.append(Obstacle(Why.CALL_INTO, at, f"call to {target:#x}"))
    return min(found, key=lambda obstacle: obstacle.addr) if found else None


def _find_jump(
    found: list[Obstacle], fn: DecodedFunction, first: int, last: int, why: Why
) -> None:
    """Note a jump of the function to [first, last] (both inclusive)."""
    i = bisect_left(fn.branches, (first, 0))
    if i < len(fn.branches) and fn.branches[i][0] <= last:
        target, at = fn.branches[i]
        found.append(Obstacle(why, at, f"jump to {target:#x}"))


def covered_region(
    text: KernelView, fn: DecodedFunction, addr: int
) -> Region | Obstacle:
    """Return the whole instructions under a jump at addr, if each can run elsewhere.

    No instruction of the function has a fix-up. Kernel: copy_optimized_instructions().
    """
    insns: list[Insn] = []
    at = addr
    while at < addr + JMP32_INSN_SIZE:
        number = fn.index.get(at)
        if number is not None:
            insn: Insn | None = fn.insns[number]
        else:
            insn = decode(fn.code, at, at - fn.start, text.bits)
        if insn is None:
            return Obstacle(Why.UNDECODABLE, at)
        try:
            check_copy(insn)
        except KernelError as err:
            return Obstacle(Why.NOT_RELOCATABLE, at, err.why)
        if not has_boostable_opcode(insn, text.rules):
            return Obstacle(Why.NOT_BOOSTABLE, at)
        insns.append(insn)
        at = insn.next_addr
    first = fn.index.get(addr, 0)
    for insn in (insns[-1], *fn.insns[first - 1 : first]):
        if is_prefix(insn):  # processors of AMD take a jump behind it for a short one
            return Obstacle(Why.NOT_BOOSTABLE, insn.addr, "a prefix of the jump")
    site = text.tables.text.ftrace_location(addr, at - 1)
    if site is not None:
        return Obstacle(Why.RESERVED, site, "ftrace site")
    if text.tables.text.text_reserved(addr, at - 1):
        return Obstacle(Why.RESERVED, 0, "jump label or static call")
    return Region(insns, fn.code[addr - fn.start : at - fn.start])
