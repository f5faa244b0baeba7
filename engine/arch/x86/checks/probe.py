# SPDX-License-Identifier: GPL-2.0-or-later
"""Judge whether x86 code can be probed at an address, by bytes and tables alone.

These functions judge the live guest and a dump of a real kernel; both come as a
KernelView.  Nothing here knows of registered probes: KernelView.code() gives the bytes
as they are without any.  Whether an address may be patched at all (blacklist, reserved
text) is the core's to say: kpfs.engine.register.check_kprobe_address_safe().  A refusal
is a KernelError with the kernel's errno and the reason.

    text = KernelView(machine, original)        original(addr, size) -> unprobed bytes
    fn = text.function(addr)                    Function: insns, boundaries; cached
    prepare_kprobe(text, addr) -> Prepared      raises EILSEQ, EINVAL, EOPNOTSUPP
    emulation(insn) -> Emulation                how its effect is got; may EOPNOTSUPP
    relocate(insn, to) -> bytes                 the copy's bytes for address to
    checks_opt.can_optimize(text, addr) -> Region | Obstacle

Kernel: arch/x86/kernel/kprobes/core.c.
"""

from __future__ import annotations

import enum
import errno
import re
from collections.abc import Callable
from functools import cached_property

from kpfs.base.errors import KernelError, MemoryFault
from kpfs.base.typed import NamedTuple
from kpfs.base.x86 import NOP5, NOP5_32
from kpfs.engine.arch.x86.insn import (
    INT3_INSN_OPCODE,
    LEGACY_PREFIXES,
    MAX_INSN_SIZE,
    Insn,
    decode,
    decode_all,
    is_direct_branch,
)
from kpfs.engine.judge import Tables, kprobes_text, symbol_range

JMP32_INSN_SIZE = 5
# endbr64, endbr32, and the nop in the place of one that nothing may jump to: the last
# one since 6.18.  Kernel: is_endbr(), gen_endbr_poison()
LANDING_PADS = (
    *(b"\xf3\x0f\x1e\xfa", b"\xf3\x0f\x1e\xfb"),
    *(b"\x66\x0f\x1f\x00", b"\x0f\x1f\x40\xd6"),
)
# the slot holds 16 bytes: the copy and the jump or int3 behind it
KPROBE_SLOT_SIZE = 16


class DecodedFunction:
    """A function decoded from its symbol to the next one, padding included."""

    __slots__ = (
        "bad", "branches", "calls", "code", "fixup", "index", "indirect", "insns",
        "live", "size", "start",
    )  # fmt: skip

    def __init__(self, code: bytes, start: int, size: int, bits: int = 64) -> None:
        """code may go on behind the function: its last instruction may, too."""
        self.start = start
        self.size = size
        self.code = code
        self.live = code  # as it was read, with ftrace sites as they were
        # address of the first instruction with a fix-up
        self.fixup: int | None = None
        self.insns = list(decode_all(code, start, size, bits))
        # the addresses at which an instruction starts, each with its number
        self.index = {insn.addr: i for i, insn in enumerate(self.insns)}
        end = self.insns[-1].next_addr if self.insns else start
        # address of the first bytes that are no instruction
        self.bad: int | None = end if end < start + size else None
        self.indirect = next((i for i in self.insns if is_indirect_jump(i)), None)
        # (where to, where from) of the jumps that jump optimisation looks at, sorted
        self.branches = sorted(
            (insn.target, insn.addr) for insn in self.insns if looks_like_jump(insn)
        )
        # targets and places of direct calls that stay in the function
        self.calls = [
            (insn.target, insn.addr)
            for insn in self.insns
            if not insn.vex and insn.opcode == b"\xe8"
            if start < insn.target < start + size
        ]


class Rules(NamedTuple):
    """The rules by which other kernels judge otherwise than 6.1."""

    traps_refused: bool = False  # int3, int and ud with EILSEQ; since 6.9
    groups_boosted: bool = False  # most of groups 2 to 5; since 6.9
    # since 6.6 jump tables are not looked for in a kernel that cannot have any
    jump_tables: bool = True
    # since 5.13 the copy ends in an int3, in a buffer of MAX_INSN_SIZE bytes
    trap_behind: bool = True


def rules_of(release: str, config: str) -> Rules:
    """Return the rules of a kernel, by its uname -r and its configuration."""
    numbers = re.match(r"(\d+)\.(\d+)", release)
    version = (int(numbers[1]), int(numbers[2])) if numbers else (6, 1)
    options = ("RETPOLINE", "MITIGATION_RETPOLINE", "X86_KERNEL_IBT")
    without = any(f"CONFIG_{option}=y\n" in config for option in options)
    late = version >= (6, 9)
    jump_tables = not (without and version >= (6, 6))
    return Rules(late, late, jump_tables, version >= (5, 13))


class KernelView:
    """Kernel text as the checks see it: tables, and the bytes without probes."""

    def __init__(
        self,
        tables: Tables,
        original: Callable[[int, int], bytes] | None = None,
        bits: int = 64,
    ) -> None:
        """original: reads text without probes, by default as the tables have it.

        bits: of the kernel's words.
        """
        self.tables, self.bits = tables, bits
        self._nop = NOP5 if bits == 64 else NOP5_32
        self._original = original or tables.read
        self.rules = Rules()
        self._functions: dict[int, DecodedFunction] = {}
        self._landing_pads: dict[int, bool] = {}  # address -> one is there
        self._generation = tables.kallsyms.generation  # the symbols' generation

    def live(self, addr: int, size: int) -> bytes:
        """Read up to size bytes without probes' patches; MemoryFault: none."""
        try:
            return self._original(addr, size)
        except MemoryFault:
            size -= MAX_INSN_SIZE - 1
            if size <= 0:
                raise
            return self._original(addr, size)

    def code(self, addr: int, size: int) -> bytes:
        """Return the text with ftrace sites as nops."""
        return self._with_nops(addr, self.live(addr, size))

    def _with_nops(self, addr: int, code: bytes) -> bytes:
        last = addr + len(code) - 1
        site = self.tables.text.ftrace_location(addr, last)
        if site is None:
            return code
        patched = bytearray(code)
        while site is not None:
            patched[site - addr : site - addr + len(self._nop)] = self._nop
            site = self.tables.text.ftrace_location(site + 1, last)
        return bytes(patched[: len(code)])

    @cached_property
    def kprobes_text(self) -> tuple[int, int]:
        """[start, end) of the section of __kprobes functions."""
        return kprobes_text(self.tables)

    @cached_property
    def entry_text(self) -> tuple[int, int]:
        """[start, end) of the code that runs on entry to the kernel."""
        return symbol_range(self.tables, "__entry_text_start", "__entry_text_end")

    @cached_property
    def indirect_thunks(self) -> tuple[int, int]:
        """[first, last] of the retpoline thunks, (0, 0) if there are none.

        If text ends behind them, kallsyms may have only _etext there.
        Kernel: scripts/kallsyms.c, symbol_valid()
        """
        start, end = "__indirect_thunk_start", "__indirect_thunk_end"
        if not self.tables.kallsyms.lookup_name(end):
            end = "_etext"
        return symbol_range(self.tables, start, end)

    def function(self, addr: int) -> DecodedFunction | None:
        """Return the decoded function around addr, None if no symbol covers it.

        Decoded again only when its bytes have changed, or modules have come or gone.
        Raises MemoryFault if its bytes are not there.
        """
        kallsyms = self.tables.kallsyms
        sym = kallsyms.symbol_at(addr)
        if sym is None or not sym.size:
            return None
        self._follow_symbols()
        live = self.live(sym.addr, sym.size + MAX_INSN_SIZE - 1)
        fn = self._functions.get(sym.addr)
        if fn is None or fn.live != live:
            code = self._with_nops(sym.addr, live)
            fn = DecodedFunction(code, sym.addr, sym.size, self.bits)
            self._functions[sym.addr] = fn
            fn.live, fn.fixup = live, self._first_fixup(fn)
        return fn

    def _follow_symbols(self) -> None:
        """Forget what was found out, if modules have come or gone."""
        generation = self.tables.kallsyms.generation
        if generation != self._generation:
            self._functions.clear()
            self._landing_pads.clear()
            self._generation = generation

    def has_landing_pad(self, addr: int) -> bool:
        """Return True if the function at addr begins with one, which nobody patches.

        Raises MemoryFault if its bytes are not there.
        """
        self._follow_symbols()
        found = self._landing_pads.get(addr)
        if found is None:
            found = self._landing_pads[addr] = self.live(addr, 4) in LANDING_PADS
        return found

    def _first_fixup(self, fn: DecodedFunction) -> int | None:
        has_exception_entry = self.tables.text.has_exception_entry
        if not has_exception_entry(fn.start, fn.start + fn.size):
            return None
        fixups = (i.addr for i in fn.insns if has_exception_entry(i.addr, i.addr + 1))
        return next(fixups, None)


# ---- jumps as the kernel's checks see them


def looks_like_jump(insn: Insn) -> bool:
    """jmp, jcc, loop or jrcxz by the kernel's test, which looks at the opcode alone.

    So a VEX instruction counts when its opcode byte is that of a jump (vpshufd is
    70), with its immediate taken for a distance; and a call does not.
    Kernel: insn_jump_into_range().
    """
    if insn.vex:
        op = insn.opcode[0]
        return op & 0xF0 == 0x70 or 0xE0 <= op <= 0xE3 or op in (0xE9, 0xEB)
    return is_direct_branch(insn) and insn.opcode[0] != 0xE8


def is_indirect_jump(insn: Insn) -> bool:
    """jmp through register or memory, or far.  Kernel: __insn_is_indirect_jump()."""
    op = insn.opcode[0]
    return (op == 0xFF and insn.reg & 6 == 4) or op == 0xEA


# ---- the address


def arch_adjust_kprobe_addr(
    text: KernelView, addr: int, offset: int
) -> tuple[int, bool]:
    """Return (address to probe for function+offset, whether that is its entry).

    A probe on a landing pad is moved behind it. Kernel: arch_adjust_kprobe_addr().
    """
    try:
        landing = text.has_landing_pad(addr)
    except MemoryFault as fault:
        raise KernelError(errno.EINVAL, str(fault)) from None
    if landing and offset in (0, 4):
        return addr + 4, True
    return addr + offset, not landing and offset == 0


# ---- the instruction


class Prepared(NamedTuple):
    """An instruction that can be probed."""

    insn: Insn
    kind: Emulation
    boostable: bool  # the copy fits in a slot, with a jump behind it in place of a trap


def prepare_kprobe(text: KernelView, addr: int) -> Prepared:
    """Return the instruction at addr if it can be copied and stepped or emulated.

    Raises EILSEQ: not an instruction boundary; EINVAL: cannot be copied; EOPNOTSUPP:
    would need an emulation that does not exist; ENOSPC: too long.
    Kernel: can_probe(), arch_prepare_kprobe(), arch_copy_kprobe().
    """
    try:
        fn = text.function(addr)
    except MemoryFault:
        fn = None
    number = None if fn is None else fn.index.get(addr)
    if fn is None or number is None:
        if fn is not None and addr == fn.bad:
            raise KernelError(errno.EINVAL, "bytes that are no instruction")
        raise KernelError(errno.EILSEQ, "not the start of an instruction")
    insn = fn.insns[number]
    if text.rules.traps_refused and is_trap(insn):
        raise KernelError(errno.EILSEQ, "an instruction that traps")
    check_copy(insn)
    has_fixup = text.tables.text.has_exception_entry
    boostable = (
        insn.length <= KPROBE_SLOT_SIZE - JMP32_INSN_SIZE
        and has_boostable_opcode(insn, text.rules)
        and not is_prefix(insn)
        and not (fn.fixup is not None and has_fixup(addr, addr + 1))
    )
    kind = emulation(insn, text.bits)
    if insn.length == MAX_INSN_SIZE and text.rules.trap_behind:
        raise KernelError(errno.ENOSPC, "too long for a breakpoint behind its copy")
    return Prepared(insn, kind, boostable)


def is_prefix(insn: Insn) -> bool:
    """Return True if it is the prefix of whatever stands behind its copy.

    That is a prefix behind REX, which the kernel takes for an opcode: a jump there
    would be one of 16 bits, and an int3 is an int3.
    """
    return not insn.vex and insn.opcode[0] in LEGACY_PREFIXES


def is_trap(insn: Insn) -> bool:
    """int3, int, into, int1, ud0, ud1, ud2.  Kernel: is_exception_insn()"""
    if insn.opcode[0] == 0x0F:
        return insn.opcode[1] in (0xFF, 0xB9, 0x0B)
    return insn.opcode[0] in (0xCC, 0xCD, 0xCE, 0xF1)


def check_copy(insn: Insn) -> None:
    """Raise EINVAL if it must not be copied.  Kernel: __copy_instruction()."""
    op = insn.opcode[0]
    if insn.emulate_prefix:
        raise KernelError(errno.EINVAL, "instruction for the hypervisor to emulate")
    if op == INT3_INSN_OPCODE:
        raise KernelError(errno.EINVAL, "int3")
    if op == 0x1F or (op == 0x8E and insn.reg == 2):
        raise KernelError(errno.EINVAL, "load of ss, which holds back interrupts")


def relocate(insn: Insn, to: int) -> bytes:
    """Return the instruction's bytes when it runs at ``to`` instead of its own address.

    Only a RIP-relative operand is adjusted; EINVAL if it is out of reach from there.
    Kernel: __copy_instruction().
    """
    if not insn.rip_relative:
        return insn.raw
    disp = insn.disp + insn.addr - to
    if not -0x8000_0000 <= disp < 0x8000_0000:
        raise KernelError(errno.EINVAL, f"operand out of reach from {to:#x}")
    at = insn.disp_off
    new = disp.to_bytes(4, "little", signed=True)
    return insn.raw[:at] + new + insn.raw[at + 4 :]


def _two_byte_boostable() -> frozenset[int]:
    groups = (
        (0x00, "2 3 6 8 9"), (0x10, "f"), (0x20, "0 1 2 3"), (0x30, "1"),
        (0x40, "0 1 2 3 4 5 6 7 8 9 a b c d e f"),
        (0x60, "0 1 2 3 4 5 6 7 8 9 a b e f"), (0x70, "4 5 6 7 e f"),
        (0x90, "0 1 2 3 4 5 6 7 8 9 a b c d e f"), (0xA0, "0 1 3 4 5 8 9 b c d f"),
        (0xB0, "0 1 2 3 4 5 6 7 b c d e f"), (0xC0, "0 1 8 9 a b c d e f"),
        (0xD0, "1 2 3 5 8 9 b c d f"), (0xE0, "1 2 5 8 9 b c d f"),
        (0xF0, "1 2 3 5 8 9 a c d e"),
    )  # fmt: skip
    return frozenset(row | int(c, 16) for row, cols in groups for c in cols.split())


def _one_byte_not_boostable() -> frozenset[int]:
    """Opcodes of jumps, calls, traps, the FPU, prefixes, and mixed groups."""
    spans = (
        (0x62, 0x62), (0x70, 0x7F), (0x9A, 0x9A), (0xC0, 0xC1), (0xCC, 0xCE),
        (0xD0, 0xD3), (0xD6, 0xD6), (0xD8, 0xDF), (0xE0, 0xE3), (0xE8, 0xE9),
        (0xEB, 0xEB), (0xF0, 0xF4), (0xF6, 0xF7), (0xFE, 0xFE),
    )  # fmt: skip
    return frozenset(op for first, last in spans for op in range(first, last + 1))


_TWO_BYTE_BOOSTABLE = _two_byte_boostable()
_ONE_BYTE_NOT_BOOSTABLE = _one_byte_not_boostable()
# of groups 2 to 5 what later kernels boost, by the operation in the ModRM byte
_GROUPS = {
    **dict.fromkeys((0xC0, 0xC1, 0xD0, 0xD1, 0xD2, 0xD3), frozenset(range(8)) - {6}),
    **dict.fromkeys((0xF6, 0xF7), frozenset(range(8)) - {1}),
    0xFE: frozenset((0, 1)),
    0xFF: frozenset((0, 1, 4)),
}


def has_boostable_opcode(insn: Insn, rules: Rules) -> bool:
    """Return True if an instruction without a fix-up needs no trap behind its copy.

    Kernel: can_boost()
    """
    if len(insn.opcode) == 2:
        return insn.opcode[1] in _TWO_BYTE_BOOSTABLE
    if len(insn.opcode) == 3:
        return False
    if 0x2E in insn.prefixes or 0x67 in insn.prefixes:
        return False
    if rules.groups_boosted and insn.opcode[0] in _GROUPS:
        return insn.reg in _GROUPS[insn.opcode[0]]
    if insn.opcode[0] == 0xFF:
        return insn.reg == 4
    return insn.opcode[0] not in _ONE_BYTE_NOT_BOOSTABLE


# ---- emulation


class Emulation(enum.Enum):
    """The kernel function that emulates an instruction.  Kernel: kprobe_emulate_*()."""

    NONE = "single step"
    IFMODIFIERS = "cli, sti, pushf, popf"
    RET = "ret"
    CALL = "call"
    JMP = "jmp"
    JCC = "jcc"
    LOOP = "loop, jrcxz"
    CALL_INDIRECT = "call *reg"
    JMP_INDIRECT = "jmp *reg"


_EMULATION = {
    **dict.fromkeys((0x9C, 0x9D, 0xFA, 0xFB), Emulation.IFMODIFIERS),
    **dict.fromkeys((0xC2, 0xC3, 0xCA, 0xCB), Emulation.RET),
    **dict.fromkeys((0xE9, 0xEB), Emulation.JMP),
    **dict.fromkeys(range(0x70, 0x80), Emulation.JCC),
    **dict.fromkeys(range(0xE0, 0xE4), Emulation.LOOP),
    0xE8: Emulation.CALL,
}
_NOT_EMULATED = {
    0x9A: "far call",
    0xEA: "far jump",
    0xCC: "int3",
    0xCF: "iret",
}


def emulation(insn: Insn, bits: int = 64) -> Emulation:
    """Return the way to get the instruction's effect at a hit; EOPNOTSUPP: none.

    The operands are in the Insn: imm is the distance of a jump, opcode[-1] & 15 the
    condition, modrm & 7 | (rex & 1) << 3 the register of an indirect one.  Unlike the
    kernel, a VEX instruction is never taken for the jump whose opcode byte it shares.
    Kernel: prepare_emulation().
    """
    op = insn.opcode[0]
    if insn.vex:
        return Emulation.NONE
    if op in _NOT_EMULATED:
        raise KernelError(errno.EOPNOTSUPP, f"{_NOT_EMULATED[op]} cannot be emulated")
    if op == 0x0F:
        if insn.opcode[1] & 0xF0 == 0x80:
            return Emulation.JCC
        if insn.opcode[1] == 0x01 and insn.modrm & 0xF8 == 0xC0:
            raise KernelError(errno.EOPNOTSUPP, "virtualisation instruction")
        return Emulation.NONE
    if op == 0xFF:
        return _indirect_emulation(insn, bits)
    return _EMULATION.get(op, Emulation.NONE)


def _indirect_emulation(insn: Insn, bits: int) -> Emulation:
    if not 2 <= insn.reg <= 5:
        return Emulation.NONE
    if insn.reg & 1:
        raise KernelError(errno.EOPNOTSUPP, "far call or jump")
    if 8 * insn.addr_bytes != bits:
        why = f"indirect branch with {8 * insn.addr_bytes}-bit address"
        raise KernelError(errno.EOPNOTSUPP, why)
    if insn.modrm >> 6 != 3:
        raise KernelError(errno.EOPNOTSUPP, "call or jump through memory")
    return Emulation.CALL_INDIRECT if insn.reg == 2 else Emulation.JMP_INDIRECT


def decode_at(text: KernelView, addr: int) -> Insn | None:
    """Return the instruction at addr, whatever function it is in, or None."""
    try:
        return decode(text.code(addr, MAX_INSN_SIZE), addr, bits=text.bits)
    except MemoryFault:
        return None
