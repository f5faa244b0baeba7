# SPDX-License-Identifier: GPL-2.0-or-later
"""s390x: its registers, by their places in libunicorn's state."""

from __future__ import annotations

from typing import ClassVar

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.data_model import BIG_64
from kpfs.base.elf import EM_S390
from kpfs.linux.arch.arch import (
    Args,
    Engine,
    FieldAddress,
    ReadWord,
    SavedRegisters,
    placed,
)
from kpfs.linux.arch.call_numbers import call_numbers
from kpfs.linux.arch.generic_calls import ABSENT
from kpfs.linux.arch.state import StateArch, word

R = {f"r{n}": 1 + n for n in range(16)}  # UC_S390X_REG_*
PC, MASK = 65, 66
MASK_64 = 0x1_8000_0000  # in the PSW: addresses have 64 bits
_PROGRAM = 1 << 48
_S = abi.S390xState
# what an image keeps: all of the state that an uc_context has, but for the board's word
STATE = {f"at_{at:03x}": at for at in range(0, _S.number & -8, 8) if at != _S.board}
_CC, _MOST_CC = f"at_{_S.cc_op:03x}", 64  # in its low half; libunicorn knows no more
_STUB = BIG_64.struct("HiHi4x")  # larl %r1, to itself; jg to the gate
_LARL_R1, _JG, _JG_AT = 0xC010, 0xC0F4, 6
_FRAME = 24  # in a frame, where r0 would be: r6 and those behind it are saved at 72
_CALLS = call_numbers("s390x")
_PLACES = {
    "pswm": _S.mask,
    "pswa": _S.addr,
    **{f"r{n}": _S.r + 8 * n for n in range(16)},
    **{f"cr{n}": _S.cr + 8 * n for n in range(16)},
    "prefix": _S.prefix,
}


class LinuxS390x(StateArch):
    name = "s390x"
    state, registers, places = STATE, R, _PLACES
    engine_place = _S.engine
    model = BIG_64
    engine = 9, 1 << 30
    cpu_model = 36  # UC_CPU_S390X_QEMU, nearly a z13
    exported_as = "s390x"
    # larl %r1, to itself; lg %r2, 0(%r1)
    load_here = b"\xc0\x10\x00\x00\x00\x00\xe3\x20\x10\x00\x00\x04"
    arguments = R["r2"], R["r3"], R["r4"]
    fourth_argument = R["r5"]
    result, stack_pointer = R["r2"], R["r15"]
    counter = PC
    link = R["r14"]
    regs_size, regs_align = 200, 8
    syscall_arguments = 152, 48, 56, 64  # pt_regs.orig_gpr2, gprs[3] to [5]
    stub_size, stub_register = _STUB.size, R["r1"]
    gate = b"\x07\xfe"  # br %r14
    cpu_fields: ClassVar = placed(abi.Cpu.own, abi.S390xCpu)
    board_fields: ClassVar = placed(abi.Board.devices, abi.S390xDevices, "running")
    translates = True
    syscall_prefix = "__s390x_sys_"
    elf_machine = EM_S390
    switch_fields: ClassVar = {"thread.ksp": 0}
    breakpoint_size, ftrace_nop = 2, b"\xc0\x04\x00\x00\x00\x00"
    pauses = ()
    wanted = (
        "HAVE_EBPF_JIT",
        "was built without a compiler for BPF, so programs are interpreted, and "
        "fentry and fexit are refused (kernels for z196 and later have it)",
    )

    @staticmethod
    def native(number: int, args: Args) -> tuple[int, Args]:
        if number == nr.MMAP:  # it takes a structure
            args = (BIG_64.struct("6Q").pack(*(arg & (1 << 64) - 1 for arg in args)),)
        return _CALLS.get(number, ABSENT), args

    def prepare(self, engine: Engine) -> None:
        engine.write_reg(MASK, MASK_64)

    def stub(self, at: int, gate: int) -> bytes:
        return _STUB.pack(_LARL_R1, 0, _JG, (gate - at - _JG_AT) // 2)

    def find_state(self, engine: Engine) -> int:
        address = super().find_state(engine)
        return address if address and word(address + _S.mask).value == MASK_64 else 0

    def is_sound(self, saved: SavedRegisters) -> bool:
        return super().is_sound(saved) and saved.values[_CC] & 0xFFFF_FFFF < _MOST_CC

    def asleep(self, field: FieldAddress, memory: ReadWord) -> dict[str, int]:
        frame = memory.word(field("thread.ksp"))
        saved = {f"r{n}": memory.word(frame + _FRAME + 8 * n) for n in range(6, 16)}
        return saved | {"r15": frame, "pswa": saved["r14"]}

    def in_kernel(self, engine: Engine) -> bool:
        return not engine.read_reg(MASK) & _PROGRAM
