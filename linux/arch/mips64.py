# SPDX-License-Identifier: GPL-2.0-or-later
"""mips64: its registers, by their places in libunicorn's state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kpfs.base import abi
from kpfs.base.data_model import LITTLE_64
from kpfs.base.elf import EM_MIPS
from kpfs.linux.arch.arch import (
    Engine,
    FieldAddress,
    Readable,
    ReadWord,
    SavedRegisters,
    placed,
)
from kpfs.linux.arch.mips64_calls import ERRORS, SIGNALS, mips64_call, open_flags
from kpfs.linux.arch.state import StateArch, address_of, word

GPR = {f"r{n}": 2 + n for n in range(32)}  # UC_MIPS_REG_*
COUNTER = 1
_S = abi.Mips64State
# what an image keeps, beside the TLB: all that an uc_context has
STATE = {f"at_{at:04x}": at for at in range(0, _S.tlb - 8, 8)}
_TLB = {f"tlb_{at:04x}": at for at in range(0, abi.MIPS64_TLB_SIZE, 8)}
_PLACES = {
    **{f"r{n}": _S.gpr + 8 * n for n in range(32)},
    "lo": _S.lo,
    "hi": _S.hi,
    "badvaddr": _S.badvaddr,
    "pc": _S.pc,
    **{f"f{n}": _S.fpr + 16 * n for n in range(32)},
}
_SHORT = {"status": _S.status, "cause": _S.cause, "fcsr": _S.fcr31}
_U32 = 0xFFFF_FFFF
_STUB = LITTLE_64.struct("III")  # lui t8, HIGH; j to the gate; ori t8, t8, LOW
_LUI_T8, _ORI_T8, _J, _J_BITS = 0x3C18_0000, 0x3718_0000, 2 << 26, 26
_SEGMENT_BITS = 29  # below those that tell what is not mapped
_HANDLERS, _HANDLERS_SIZE = 0x1FFF_F000, 0x100  # bits of EBase
_LUI_K1, _ADDIU_K1, _B = 0x3C1B, 0x277B, 0x1000
# bytes behind struct pt_regs at the end of a stack
_BEHIND_REGS = 32
# what a sleeping task has left.  Kernel: struct thread_struct
_SAVED = *range(16, 24), 29, 30, 31


class LinuxMips64(StateArch):
    name = "mips64"
    state, places = STATE, _PLACES
    registers: ClassVar = {name: GPR[name] for name in GPR if name != "r0"}
    engine_place = _S.engine
    engine, cpu_model = (3, 8), 7  # UC_ARCH_MIPS, UC_MODE_MIPS64; a 5KEf
    exported_as = "mips64el"
    load_here = b"\x00\x00\x02\x8c"  # lw v0, 0(zero)
    arguments = GPR["r4"], GPR["r5"], GPR["r6"]
    fourth_argument = GPR["r7"]
    result, stack_pointer = GPR["r2"], GPR["r29"]
    counter = COUNTER
    link = GPR["r31"]
    syscall_arguments = 32, 40, 48, 56  # pt_regs.regs[4] to [7]
    stub_size, stub_register = _STUB.size, GPR["r24"]
    gate = b"\x08\x00\xe0\x03"  # jr ra
    cpu_fields: ClassVar = placed(abi.Cpu.own, abi.Mips64Cpu, "tlb")
    board_fields: ClassVar = placed(abi.Board.devices, abi.Mips64Devices, "fetches")
    translates = True
    native = staticmethod(mips64_call)
    open_flags = staticmethod(open_flags)
    errors, signals = ERRORS, SIGNALS
    syscall_prefix, first_call = "sys_", 5000
    elf_machine = EM_MIPS
    page_offset = 0x9800_0000_0000_0000  # CAC_BASE
    region_base, region_phys = abi.REGION_LOWEST, abi.REGION_PHYS_32
    max_ram = abi.REGION_PHYS_32
    regs_size = 304
    switch_fields: ClassVar = {
        f"thread.reg{n}": 8 * (at - _SAVED.index(29)) for at, n in enumerate(_SAVED)
    }
    shown = (*_PLACES, *_SHORT)
    breakpoint_size, ftrace_nop = 4, b"\x00\x00\x00\x00"
    pauses = ()

    def stub(self, at: int, gate: int) -> bytes:
        high, low = at >> 16 & 0xFFFF, at & 0xFFFF
        jump = _J | gate >> 2 & (1 << _J_BITS) - 1
        return _STUB.pack(_LUI_T8 | high, jump, _ORI_T8 | low)

    def called_with(self, engine: Engine, memory: ReadWord) -> int:
        return engine.read_reg(GPR["r4"])  # no struct pt_regs

    def regs_room(self, size: int) -> int:
        return size + _BEHIND_REGS

    def save(self, engine: Engine) -> SavedRegisters:
        saved = super().save(engine)
        entries = _entries(engine)
        saved.values.update({n: word(entries + at).value for n, at in _TLB.items()})
        return saved

    def load(self, engine: Engine, saved: SavedRegisters) -> None:
        super().load(engine, saved)
        entries = _entries(engine)
        for name, at in _TLB.items():
            word(entries + at).value = saved.values[name]

    def is_sound(self, saved: SavedRegisters) -> bool:
        state = {name: saved.values[name] for name in saved.values if name not in _TLB}
        return saved.values.keys() >= _TLB.keys() and super().is_sound(
            saved._replace(values=state)
        )

    def debugged(self, engine: Engine, name: str) -> int:
        if name in _SHORT:
            return word(address_of(engine) + _SHORT[name]).value & _U32
        return super().debugged(engine, name)

    def asleep(self, field: FieldAddress, memory: ReadWord) -> dict[str, int]:
        found = {f"r{n}": memory.word(field(f"thread.reg{n}")) for n in _SAVED}
        return found | {"pc": found["r31"]}

    def learn(self, engine: Engine, ram: Readable) -> Mapping[str, int]:
        """Find the kernel's table in its code for addresses that the TLB lacks.

        Kernel: build_get_pgd_vmalloc64()
        """
        base = word(address_of(engine) + _S.ebase).value & _HANDLERS
        code = LITTLE_64.array("I", ram[base : base + _HANDLERS_SIZE])
        for insn, behind, last in zip(code, code[1:], code[2:], strict=False):
            # without a low half it is a branch's delay slot
            halves = insn, last if behind >> 16 == _B else _ADDIU_K1 << 16
            if [half >> 16 for half in halves] == [_LUI_K1, _ADDIU_K1]:
                high, low = (half & 0xFFFF for half in halves)
                table = (high << 16) + low - (low << 1 & 0x1_0000)
                return {"kernel_table": table & (1 << _SEGMENT_BITS) - 1}
        return {}


def _entries(engine: Engine) -> int:
    """Return the address of the TLB's entries in this process."""
    return word(address_of(engine) + _S.tlb).value + abi.MIPS64_TLB_ENTRIES
