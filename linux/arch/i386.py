# SPDX-License-Identifier: GPL-2.0-or-later
"""i386: kernels of 32 bits, on the processor of x86-64 out of its long mode."""

from __future__ import annotations

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.data_model import LITTLE_32
from kpfs.base.elf import EM_386
from kpfs.base.x86 import NOP5_32
from kpfs.emulator.x86_registers import CONTROL, GENERAL, SEGMENTS
from kpfs.linux.arch.arch import Engine, FieldAddress, ReadWord
from kpfs.linux.arch.call_numbers import call_numbers
from kpfs.linux.arch.small_calls import SmallCalls, arguments, pair
from kpfs.linux.arch.state import StateArch
from kpfs.linux.arch.x86 import LinuxX86

_END = 5528  # bytes of the state that an uc_context has
STATE = {f"at_{at:04x}": at for at in range(0, _END, 8)}
_U32 = 0xFFFF_FFFF
_STUB = LITTLE_32.struct("BIBi")  # mov $itself, %eax; jmp to the gate
_MOV_EAX, _JMP, _STUB_END = 0xB8, 0xE9, 10
_GENERAL = "ax", "cx", "dx", "bx", "sp", "bp", "si", "di"
_DEBUGGED = {
    **{f"e{name}": GENERAL[f"r{name}"] for name in (*_GENERAL, "ip")},
    "eflags": GENERAL["rflags"],
    **SEGMENTS,
    **CONTROL,
}
# what a sleeping task has left.  Kernel: struct inactive_task_frame
_SWITCH_FRAME = "eflags", "esi", "edi", "ebx", "ebp", "eip"
_ARGUMENTS = arguments((), 84) | {
    nr.FADVISE64: lambda fd, at, size, advice: (fd, *pair(at), *pair(size), advice),
    nr.SYNC_FILE_RANGE: lambda fd, at, size, flags: (
        *(fd, *pair(at), *pair(size), flags),
    ),
}
_CALLS = SmallCalls(call_numbers("i386"), _ARGUMENTS)


class LinuxI386(StateArch, LinuxX86):
    name = "i386"
    state = STATE
    model = LITTLE_32
    arguments = tuple(GENERAL[name] for name in ("rax", "rdx", "rcx"))
    passes_by_stack = True
    syscall_arguments = 0, 4, 8, 12  # pt_regs.bx, cx, dx, si
    stub_size, stub_register, gate = _STUB_END, GENERAL["rax"], b"\xc3"  # ret
    translates = True
    native = _CALLS.native
    syscall_prefix = "__ia32_sys_"
    elf_machine = EM_386
    region_base, region_phys = abi.REGION_BASE_32, abi.REGION_PHYS_32
    max_ram, page_offset = abi.REGION_PHYS_32, 0xC000_0000
    regs_size = 68
    ftrace_nop = NOP5_32
    shown = tuple(_DEBUGGED)
    features, find_state = LinuxX86.features, LinuxX86.find_state

    def stub(self, at: int, gate: int) -> bytes:
        return _STUB.pack(_MOV_EAX, at, _JMP, gate - at - _STUB_END)

    def return_now(self, engine: Engine, memory: ReadWord, value: int) -> None:
        back, sp = self.return_address(engine, memory), GENERAL["rsp"]
        engine.write_reg(GENERAL["rax"], value & _U32)
        engine.write_reg(sp, engine.read_reg(sp) + 4)
        engine.write_reg(self.counter, back)

    def regs_room(self, size: int) -> int:
        return size + 8

    def debugged(self, engine: Engine, name: str) -> int:
        return engine.read_reg(_DEBUGGED[name]) & _U32

    def set_debugged(self, engine: Engine, name: str, value: int) -> None:
        if name in SEGMENTS:  # a selector alone would not say what the segment is
            raise KeyError(name)
        engine.write_reg(_DEBUGGED[name], value)

    def asleep(self, field: FieldAddress, memory: ReadWord) -> dict[str, int]:
        sp = memory.word(field("thread.sp"))
        found = {name: memory.word(sp + 4 * n) for n, name in enumerate(_SWITCH_FRAME)}
        return found | {"esp": sp + 4 * len(_SWITCH_FRAME)}

    def in_kernel(self, engine: Engine) -> bool:
        return not engine.read_reg(SEGMENTS["cs"]) & 3
