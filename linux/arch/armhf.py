# SPDX-License-Identifier: GPL-2.0-or-later
"""armhf: kernels of 32 bits, on the processor of arm64."""

from __future__ import annotations

from typing import ClassVar

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.data_model import LITTLE_32
from kpfs.base.elf import EM_ARM
from kpfs.linux.arch import arm64
from kpfs.linux.arch.arch import Engine, FieldAddress, ReadWord, placed
from kpfs.linux.arch.arm64 import LinuxArm64
from kpfs.linux.arch.call_numbers import call_numbers
from kpfs.linux.arch.small_calls import SmallCalls, arguments, pair
from kpfs.linux.arch.state import StateArch, address_of, word

_NAMES = (*(f"r{n}" for n in range(13)), "sp", "lr", "pc")
# by the numbers of x0 to x15, where the board has them (linux/board/arm64/cpu.c)
R = {name: arm64.GENERAL["x0"] + n for n, name in enumerate(_NAMES[:15])}
R["pc"] = arm64.PC
_VECTORS, _VECTOR_SIZE, _NR_VECTORS, _END = 0xC10, 256, 32, 0x3110
_VECTOR_PLACES = range(_VECTORS, _VECTORS + _VECTOR_SIZE * _NR_VECTORS, _VECTOR_SIZE)
_COUNTERS = 0x810  # the performance counters have the host's clock
# what an image keeps: all of the state that an uc_context has, but what only larger
# vectors of AArch64 use
STATE = {
    f"at_{at:04x}": at
    for at in (
        *(at for at in range(0, _VECTORS, 8) if at != _COUNTERS),
        *(
            _VECTORS + _VECTOR_SIZE * n + at
            for n in range(_NR_VECTORS)
            for at in (0, 8)
        ),
        *range(_VECTORS + _VECTOR_SIZE * _NR_VECTORS, _END, 8),
    )
}
_U32 = 0xFFFF_FFFF
_MODULES = 0xBF00_0000  # see linux/board/arm64/paging.c
_STUB = LITTLE_32.struct("II")  # sub ip, pc, #8; b to the gate
_SUB_IP_PC_8, _B, _B_MASK = 0xE24F_C008, 0xEA00_0000, 0x00FF_FFFF
_AHEAD, _INSN = 8, 4  # pc is so far ahead where it is read
# what a sleeping task has left.  Kernel: struct cpu_context_save
_SWITCH_FRAME = *(f"r{n}" for n in range(4, 12)), "sp", "pc"
_CPSR, _AIF, _SVC = "cpsr", 0x1C0, 0x13
# a pair begins at an even register
_ARGUMENTS = arguments((0,), 88) | {
    nr.FADVISE64: lambda fd, at, size, advice: (fd, advice, *pair(at), *pair(size)),
    nr.SYNC_FILE_RANGE: lambda fd, at, size, flags: (
        *(fd, flags, *pair(at), *pair(size)),
    ),
}
_CALLS = SmallCalls(call_numbers("armhf"), _ARGUMENTS, LinuxArm64.open_flags)


class LinuxArmhf(StateArch):
    name = "armhf"
    state = STATE
    model = LITTLE_32
    engine, cpu_model = LinuxArm64.engine, LinuxArm64.cpu_model
    exported_as = LinuxArm64.exported_as
    engine_page = LinuxArm64.engine_page
    load_here = LinuxArm64.load_here
    arguments = R["r0"], R["r1"], R["r2"]
    fourth_argument = R["r3"]
    result, stack_pointer = R["r0"], R["sp"]
    counter = R["pc"]
    link = R["lr"]
    syscall_arguments = 68, 4, 8, 12  # pt_regs.ARM_ORIG_r0, uregs[1] to [3]
    stub_size, stub_register = _STUB.size, R["r12"]
    gate = b"\x1e\xff\x2f\xe1"  # bx lr
    cpu_fields: ClassVar = placed(abi.Cpu.own, abi.Arm64Cpu)
    board_fields: ClassVar = LinuxArm64.board_fields
    kept = LinuxArm64.kept
    translates = True
    native = _CALLS.native
    open_flags = staticmethod(LinuxArm64.open_flags)
    syscall_prefix = "sys_"
    elf_machine = EM_ARM
    region_base, region_phys = abi.REGION_BASE_32, abi.REGION_PHYS_32
    max_ram, page_offset = abi.REGION_PHYS_32, 0xC000_0000
    regs_size = 72
    switch_fields: ClassVar = {
        "thread_info.cpu_context": -4 * _SWITCH_FRAME.index("sp")
    }
    shown = *_NAMES, _CPSR
    breakpoint_size, ftrace_nop = 4, b"\x00\xf0\x20\xe3"
    jump_nop = b"\x00\x00\xa0\xe1"  # mov r0, r0
    pauses = ()

    def stub(self, at: int, gate: int) -> bytes:
        distance = (gate - at - _INSN - _AHEAD) // _INSN
        return _STUB.pack(_SUB_IP_PC_8, _B | distance & _B_MASK)

    def return_now(self, engine: Engine, memory: ReadWord, value: int) -> None:
        engine.write_reg(R["r0"], value & _U32)
        engine.write_reg(R["pc"], engine.read_reg(R["lr"]))

    def called_with(self, engine: Engine, memory: ReadWord) -> int:
        return engine.read_reg(R["r0"])  # no struct pt_regs

    def find_state(self, engine: Engine) -> int:
        return arm64.find_state(engine, kernel_is_64_bit=False)

    def debugged(self, engine: Engine, name: str) -> int:
        if name != _CPSR:
            return engine.read_reg(R[name])
        return cpsr(address_of(engine))

    def set_debugged(self, engine: Engine, name: str, value: int) -> None:
        engine.write_reg(R[name], value)

    def asleep(self, field: FieldAddress, memory: ReadWord) -> dict[str, int]:
        at = field("thread_info.cpu_context")
        found = {name: memory.word(at + 4 * n) for n, name in enumerate(_SWITCH_FRAME)}
        return found | {_CPSR: _SVC}  # not saved; gdb shows no stack without it

    def in_kernel(self, engine: Engine) -> bool:
        return engine.read_reg(R["pc"]) >= _MODULES


def cpsr(at: int) -> int:
    """Return the status register of a processor whose state is at an address."""

    def field(offset: int) -> int:
        return word(at + offset).value & _U32

    flags = (
        field(abi.ARM64_STATE_NEGATIVE) >> 31,
        not field(abi.ARM64_STATE_NOT_ZERO),
        field(abi.ARM64_STATE_CARRY),
        field(abi.ARM64_STATE_OVERFLOW) >> 31,
    )
    found = field(abi.ARM64_STATE_CPSR) | field(abi.ARM64_STATE_DAIF) & _AIF
    found |= field(abi.ARM64_STATE_THUMB) << 5
    return found | sum(flag << 31 - n for n, flag in enumerate(flags))
