# SPDX-License-Identifier: GPL-2.0-or-later
"""ppc64el: its registers, by their places in libunicorn's state."""

from __future__ import annotations

from typing import ClassVar

from kpfs.base import abi
from kpfs.base.data_model import LITTLE_64
from kpfs.base.elf import EM_PPC64
from kpfs.linux.arch.arch import Engine, FieldAddress, ReadWord, placed
from kpfs.linux.arch.ppc64_calls import open_flags, ppc64_call
from kpfs.linux.arch.state import StateArch, address_of, word

R = {f"r{n}": 2 + n for n in range(32)}  # UC_PPC_REG_*
PC, LR, CR = 1, 74, 79
_S = abi.Ppc64State
_SPRS, _FLOATS = 1024, 136  # words
# what an image keeps: without reservations, and what libunicorn makes of MSR
STATE = {
    f"at_{at:05x}": at
    for at in (
        *range(_S.gpr, _S.reserve_addr, 8),
        *(_S.msr, _S.nip),
        *range(_S.spr, _S.spr + 8 * _SPRS, 8),
        *range(_S.floats, _S.floats + 8 * _FLOATS, 8),
    )
}
_SPR = {"dsisr": 18, "dar": 19, "srr0": 26, "srr1": 27, "pid": 48, "lpcr": 318}
# beside them debuggers show cr and xer, which are in pieces
_PLACES = {
    **{f"r{n}": _S.gpr + 8 * n for n in range(32)},
    "pc": _S.nip,
    "msr": _S.msr,
    "lr": _S.lr,
    "ctr": _S.ctr,
    **{name: _S.spr + 8 * number for name, number in _SPR.items()},
}
_CR = "cr"
_XER, _XER_BITS = "xer", ((_S.so, 31), (_S.ov, 30), (_S.ca, 29))
_STUB, _B, _B_MASK = LITTLE_64.struct("I"), 18 << 26, 0x03FF_FFFC  # b to the gate
_SAVED_LR = 16  # in a frame, whose first word is the address of its caller's


class LinuxPpc64(StateArch):
    name = "ppc64"
    state, registers, places = STATE, R, _PLACES
    engine_place = _S.engine
    engine = 5, 1 << 30 | 1 << 3
    cpu_model = None  # a POWER10, the only one that works; the board makes it a POWER9
    exported_as = "ppc64"
    load_here = b"\xe8\x60\x00\x00"  # ld r3, 0(0): libunicorn begins in big-endian
    arguments = R["r3"], R["r4"], R["r5"]
    fourth_argument = R["r6"]
    result, stack_pointer = R["r3"], R["r1"]
    counter = PC
    link = LR
    entry_register = R["r12"]
    regs_size = 384
    page_offset = 0xC000_0000_0000_0000
    syscall_arguments = 24, 32, 40, 48  # pt_regs.gpr[3] to [6]
    stub_size, stub_register = _STUB.size, R["r12"]
    gate = b"\x20\x00\x80\x4e"  # blr
    cpu_fields: ClassVar = {
        **placed(abi.Cpu.own, abi.Ppc64Cpu, "nr_touched user_filled touched"),
        "argument": abi.Cpu.argument,
    }
    board_fields: ClassVar = placed(abi.Board.devices, abi.Ppc64Devices)
    translates = True
    native = staticmethod(ppc64_call)
    open_flags = staticmethod(open_flags)
    syscall_prefix = "sys_"
    elf_machine = EM_PPC64
    region_base = abi.REGION_LOW
    switch_fields: ClassVar = {"thread.ksp": 0}
    shown = (*_PLACES, _CR, _XER)
    breakpoint_size, ftrace_nop = 4, b"\x00\x00\x00\x60"

    def stub(self, at: int, gate: int) -> bytes:
        """Callers by pointer have the address in r12 already."""
        return _STUB.pack(_B | gate - at & _B_MASK)

    def debugged(self, engine: Engine, name: str) -> int:
        address = address_of(engine)
        if name == _CR:
            return engine.read_reg(CR)
        if name == _XER:
            bits = sum((word(address + at).value & 1) << bit for at, bit in _XER_BITS)
            return word(address + _S.xer).value | bits
        return super().debugged(engine, name)

    def set_debugged(self, engine: Engine, name: str, value: int) -> None:
        address = address_of(engine)
        if name == _CR:
            engine.write_reg(CR, value)
        elif name == _XER:
            word(address + _S.xer).value = value & ~sum(
                1 << bit for _, bit in _XER_BITS
            )
            for at, bit in _XER_BITS:
                word(address + at).value = value >> bit & 1
        else:
            super().set_debugged(engine, name, value)

    def asleep(self, field: FieldAddress, memory: ReadWord) -> dict[str, int]:
        # _switch() has a frame of its own, and has left its caller's address there
        frame = memory.word(memory.word(field("thread.ksp")))
        return {"r1": frame, "pc": memory.word(frame + _SAVED_LR)}
