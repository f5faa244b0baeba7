# SPDX-License-Identifier: GPL-2.0-or-later
"""Emulates instructions that cannot run from a copy at another address.

Two ways to the same effect.  slot_code() writes them anew for the slot, where they end
at the original's target or successor by themselves: no trap follows, and guest
handlers need no help from here.  emulate() works on registers in a trap, for probes
with a post_handler, which wants to see the registers behind the instruction.
"""

from __future__ import annotations

from kpfs.base.ktypes import MASK64
from kpfs.base.x86 import X86_EFLAGS_IF
from kpfs.engine.arch.x86.checks.probe import Emulation
from kpfs.engine.arch.x86.insn import INT3_INSN_OPCODE, Insn
from kpfs.engine.arch.x86.regs import (
    BY_NUMBER,
    CX,
    FLAGS,
    IP,
    SP,
    X86_EFLAGS_CF,
    X86_EFLAGS_OF,
    X86_EFLAGS_PF,
    X86_EFLAGS_SF,
    X86_EFLAGS_ZF,
    PtRegs,
)
from kpfs.engine.arch.x86.text_patching import jmp, push_imm32, rel32
from kpfs.engine.machine import Memory

INT3 = bytes((INT3_INSN_OPCODE,))
RSP = 4  # its number in ModRM
# flags that popf leaves alone in ring 0 as unicorn runs it: none but the fixed bits
_POPF_MASK = 0x24_7FD5


# By condition code >> 1, the flags any of which makes it hold; the last two conditions
# hold also if SF and OF differ.
_TESTED = (
    X86_EFLAGS_OF, X86_EFLAGS_CF, X86_EFLAGS_ZF, X86_EFLAGS_CF | X86_EFLAGS_ZF,
    X86_EFLAGS_SF, X86_EFLAGS_PF, 0, X86_EFLAGS_ZF,
)  # fmt: skip


def indirect_reg(insn: Insn) -> int:
    """Return the number of the register that a call *reg or jmp *reg goes by."""
    return insn.modrm & 7 | (insn.rex & 1) << 3


def slot_code(insn: Insn, kind: Emulation, slot: int) -> bytes | None:
    """Code at slot that has the effect of an emulated instruction, wherever it leads.

    None: there is none; the slot is to trap, and emulate() to do it. Context: control.
    """
    after = insn.next_addr
    if kind is Emulation.IFMODIFIERS:
        return insn.raw + jmp(slot + insn.length, after)
    if kind in (Emulation.RET, Emulation.JMP_INDIRECT):
        return insn.raw
    if kind is Emulation.CALL:
        return push_imm32(after) + jmp(slot + 5, insn.target)
    if kind is Emulation.JMP:
        return jmp(slot, insn.target)
    if kind is Emulation.JCC:
        code = bytes((0x0F, 0x80 | insn.opcode[-1] & 15)) + rel32(slot + 2, insn.target)
        return code + jmp(slot + 6, after)
    if kind is Emulation.LOOP:
        code = insn.raw[: insn.imm_off] + b"\x05"  # over the jump that follows
        code += jmp(slot + len(code), after)
        return code + jmp(slot + len(code), insn.target)
    if kind is Emulation.CALL_INDIRECT and indirect_reg(insn) != RSP:
        modrm = bytes((insn.modrm & ~0x38 | 0x20,))  # jmp *reg
        return push_imm32(after) + insn.raw[:-1] + modrm
    return None


def _push(memory: Memory, regs: PtRegs, value: int) -> None:
    regs[SP] -= 8
    memory.write_u64(regs[SP], value)


def _pop(memory: Memory, regs: PtRegs) -> int:
    value = memory.read_u64(regs[SP])
    regs[SP] += 8
    return value


def _far_return(memory: Memory, insn: Insn, regs: PtRegs) -> int:
    """Emulate lret: pop the code segment too, which the kernel wrongly does not."""
    size = 8 if insn.rex & 8 else insn.opnd_bytes
    target = int.from_bytes(memory.read(regs[SP], size), "little")
    regs[SP] += 2 * size
    return target


def _condition(flags: int, cc: int) -> bool:
    """Return True if jcc with condition code cc jumps.  Kernel: int3_emulate_jcc()"""
    less = bool(flags & X86_EFLAGS_SF) != bool(flags & X86_EFLAGS_OF)
    holds = bool(flags & _TESTED[cc >> 1]) or (cc >> 1 >= 6 and less)
    return holds != bool(cc & 1)


def _loop(insn: Insn, regs: PtRegs) -> bool:
    """Count down; whether a loop or jrcxz jumps.  Kernel: kprobe_emulate_loop()"""
    kind = insn.opcode[0] & 3
    mask = MASK64 if insn.addr_bytes == 8 else 0xFFFF_FFFF
    if kind == 3:  # jrcxz
        return not regs[CX] & mask
    # a 32-bit result clears the upper half, as every 32-bit operation does
    count = regs[CX] = (regs[CX] - 1) & mask
    zero = bool(regs[FLAGS] & X86_EFLAGS_ZF)
    return count != 0 and (kind == 2 or zero == (kind == 1))


def _ifmodifiers(memory: Memory, insn: Insn, regs: PtRegs) -> None:
    """Kernel: kprobe_emulate_ifmodifiers()"""
    op = insn.opcode[0]
    size = 2 if insn.opnd_bytes == 2 else 8
    if op == 0xFA:
        regs[FLAGS] &= ~X86_EFLAGS_IF
    elif op == 0xFB:
        regs[FLAGS] |= X86_EFLAGS_IF
    elif op == 0x9C:
        regs[SP] -= size
        memory.write(regs[SP], (regs[FLAGS] & 0xFCFFFF).to_bytes(8, "little")[:size])
    else:
        value = int.from_bytes(memory.read(regs[SP], size), "little")
        mask = _POPF_MASK & (0xFFFF if size == 2 else MASK64)
        regs[SP] += size
        regs[FLAGS] = regs[FLAGS] & ~mask | value & mask | 2


def emulate(memory: Memory, insn: Insn, kind: Emulation, regs: PtRegs) -> None:
    """Do to regs and memory what the instruction would do; sets regs.ip.

    MemoryFault: the stack is not there.  Context: hit.  Kernel: kprobe_emulate_*()
    """
    ip = insn.next_addr
    if kind is Emulation.IFMODIFIERS:
        _ifmodifiers(memory, insn, regs)
    elif kind is Emulation.RET:
        far = insn.opcode[0] & 8
        ip = _far_return(memory, insn, regs) if far else _pop(memory, regs)
        if insn.imm_size:
            regs[SP] += insn.imm & 0xFFFF
    elif kind is Emulation.CALL:
        _push(memory, regs, ip)
        ip = insn.target
    elif kind is Emulation.JMP:
        ip = insn.target
    elif kind is Emulation.JCC:
        if _condition(regs[FLAGS], insn.opcode[-1] & 15):
            ip = insn.target
    elif kind is Emulation.LOOP:
        if _loop(insn, regs):
            ip = insn.target
    elif kind is Emulation.CALL_INDIRECT:
        target = regs[BY_NUMBER[indirect_reg(insn)]]
        _push(memory, regs, ip)
        ip = target
    elif kind is Emulation.JMP_INDIRECT:
        ip = regs[BY_NUMBER[indirect_reg(insn)]]
    regs[IP] = ip
