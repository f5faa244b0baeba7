# SPDX-License-Identifier: GPL-2.0-or-later
"""x86-64: its registers by libunicorn's numbers, in the order of images."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import ClassVar

from kpfs.base import abi
from kpfs.base.data_model import LITTLE_64
from kpfs.emulator import libunicorn, x86_registers
from kpfs.emulator.x86_registers import (
    CONTROL,
    GENERAL,
    MSRS,
    SEGMENTS,
    read_msr,
    write_msr,
)
from kpfs.linux.arch.arch import (
    Engine,
    FieldAddress,
    LinuxArch,
    ReadWord,
    SavedRegisters,
    fits,
    placed,
)

FPU = {"fpcw": 246, "mxcsr": 249}
TABLES = {"gdtr": 243, "idtr": 242, "ldtr": 244, "tr": 245}
_STATE = LITTLE_64.struct("16Q")  # the begin of struct x86_state
_IDT_BASE = abi.X86State.idt + abi.Segment.base
_CR2, _CR3 = (abi.X86State.cr + 8 * number for number in (2, 3))
_CPUID = b"\x0f\xa2"
_FEATURES = 1  # the leaf of CPUID that also has the processor's number
_U64 = LITTLE_64.struct("Q")
_MMR = LITTLE_64.struct("H6xQ2I")  # uc_x86_mmr: selector, base, limit, flags
_WIDTHS = 16, 64, 32, 32  # bits of a descriptor table's selector, base, limit, flags
_USER = 3  # privilege level in a selector
_USER_DATA = 0x2B  # selector of a program's stack
_FRED_ROOM = 16  # bytes that kernels with FRED leave at the end of a stack
_STUB = LITTLE_64.struct("3siBi4x")  # lea -7(%rip), %rax; jmp to the gate
_LEA_RAX, _LEA_SIZE, _JMP, _JMP_END = b"\x48\x8d\x05", 7, 0xE9, 12
# the first bytes of instructions of AVX, FMA, BMI and AVX-512
_VEX = 0xC4, 0xC5, 0x62


def read_table(engine: Engine, name: str) -> tuple[int, int, int, int]:
    """Return selector, base, limit and flags of gdtr, idtr, ldtr or tr."""
    raw = engine.read_raw(TABLES[name], bytes(_MMR.size))
    selector, base, limit, flags = _MMR.unpack(raw)
    return selector, base, limit, flags


def write_table(engine: Engine, name: str, value: tuple[int, int, int, int]) -> None:
    engine.write_raw(TABLES[name], _MMR.pack(*value))


class LinuxX86(LinuxArch):
    name = "x86"
    engine = 4, 8
    # It has no RDRAND, which would make every boot differ, and neither AVX nor XSAVE,
    # which libunicorn lacks; programs find all of x86-64-v2.
    cpu_model = 15  # UC_CPU_X86_NEHALEM
    exported_as = "x86_64"
    load_here = b"\x48\x8b\x05\xf9\xff\xff\xff"  # mov -7(%rip), %rax
    arguments = tuple(GENERAL[name] for name in ("rdi", "rsi", "rdx"))
    fourth_argument = GENERAL["rcx"]
    result, stack_pointer = GENERAL["rax"], GENERAL["rsp"]
    counter = GENERAL["rip"]
    syscall_arguments = 8 * 14, 8 * 13, 8 * 12, 8 * 7  # pt_regs.di, si, dx, r10
    stub_size, stub_register, gate = 16, GENERAL["rax"], b"\xc3"  # ret
    cpu_fields: ClassVar = placed(abi.Cpu.own, abi.X86Cpu)
    board_fields: ClassVar = {"cmos": abi.Board.devices + abi.X86Devices.cmos}
    kept = "now", "deadline", "cmos", "current"
    kept_of_cpu = "state", "since", "timer", "apic_start", "apic_period", "nmi", "cr2"
    kept_arrays: ClassVar = {"apic": abi.NR_APIC_REGS, "pending": 4}
    syscall_prefix = "__x64_sys_"
    elf_machine = 62  # EM_X86_64
    page_offset = 0xFFFF_8880_0000_0000  # without CONFIG_RANDOMIZE_MEMORY
    boosts = True
    shown = x86_registers.SHOWN
    breakpoint_size, ftrace_nop = 1, b"\x0f\x1f\x44\x00\x00"
    pauses = (b"\xf3\x90",)  # pause

    def stub(self, at: int, gate: int) -> bytes:
        return _STUB.pack(_LEA_RAX, -_LEA_SIZE, _JMP, gate - at - _JMP_END)

    def return_address(self, engine: Engine, memory: ReadWord) -> int:
        return memory.word(engine.read_reg(GENERAL["rsp"]))

    def return_now(self, engine: Engine, memory: ReadWord, value: int) -> None:
        back, sp = self.return_address(engine, memory), GENERAL["rsp"]
        engine.write_reg(GENERAL["rax"], value)
        engine.write_reg(sp, engine.read_reg(sp) + 8)
        engine.write_reg(self.counter, back)

    def program_registers(self, stack_end: int, size: int, memory: ReadWord) -> int:
        is_last = memory.word(stack_end - 8) == _USER_DATA
        return stack_end - size - (0 if is_last else _FRED_ROOM)

    @staticmethod
    def lacks(instruction: int) -> str:
        if instruction & 0xFF not in _VEX:
            return ""
        return (
            "the command uses instructions that the guest's processor lacks (AVX, FMA "
            "or BMI); it has those of x86-64-v2"
        )

    def find_state(self, engine: Engine) -> int:
        values = [0x5EED_0000_1234_0000 + number for number in range(16)]
        order = "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15"
        for name, value in zip(order.split(), values, strict=True):
            engine.write_reg(GENERAL[name], value)
        engine.write_reg(CONTROL["cr2"], 0x1234_5000)
        write_table(engine, "idtr", (0, 0x4567_8000, 0xFFF, 0))
        address = libunicorn.state_of(engine.address)
        raw = ctypes.string_at(address, _CR2 + 8)
        found = _STATE.unpack_from(raw)[:16], _U64.unpack_from(raw, _CR2)[0]
        idt = _U64.unpack_from(raw, _IDT_BASE)[0]
        known = (*found, idt) == (tuple(values), 0x1234_5000, 0x4567_8000)
        return address if known else 0

    def features(self, engine: Engine) -> Mapping[int, int]:
        engine.write_reg(GENERAL["rax"], _FEATURES)
        engine.execute(_CPUID)
        first, names = abi.Board.devices + abi.X86Devices.cpuid, "rax rbx rcx rdx"
        return {
            first + 8 * number: engine.read_reg(GENERAL[name])
            for number, name in enumerate(names.split())
        }

    def save(self, engine: Engine) -> SavedRegisters:
        kept = GENERAL | CONTROL | FPU
        values = {name: engine.read_reg(reg) for name, reg in kept.items()}
        values |= {name: read_msr(engine, msr) for name, msr in MSRS.items()}
        tables = {name: list(read_table(engine, name)) for name in TABLES}
        user = engine.read_reg(SEGMENTS["cs"]) & _USER == _USER
        return SavedRegisters(
            values, tables, abi.MODE_USER if user else abi.MODE_KERNEL
        )

    def load(self, engine: Engine, saved: SavedRegisters) -> None:
        values = saved.values
        for name, msr in MSRS.items():
            write_msr(engine, msr, values[name])
        for name in ("cr3", "cr4", "cr0", "cr2"):
            engine.write_reg(CONTROL[name], values[name])
        for name in TABLES:
            selector, base, limit, flags = saved.tables[name]
            write_table(engine, name, (selector, base, limit, flags))
        for name, reg in (GENERAL | FPU).items():
            engine.write_reg(reg, values[name])
        engine.set_mode(saved.mode)

    def is_sound(self, saved: SavedRegisters) -> bool:
        kept = GENERAL.keys() | CONTROL.keys() | FPU.keys() | MSRS.keys()
        tables = saved.tables
        return (
            saved.values.keys() == kept
            and all(fits(number, 64) for number in saved.values.values())
            and tables.keys() == TABLES.keys()
            and all(len(row) == len(_WIDTHS) for row in tables.values())
            and all(all(map(fits, row, _WIDTHS)) for row in tables.values())
            and fits(saved.mode, 8)
            and saved.mode in (abi.MODE_KERNEL, abi.MODE_USER)
        )

    def place(self, saved: SavedRegisters, state: int) -> None:
        ctypes.c_uint64.from_address(state + _CR3).value = saved.values["cr3"]

    def debugged(self, engine: Engine, name: str) -> int:
        return x86_registers.read_debugged(engine, name)

    def set_debugged(self, engine: Engine, name: str, value: int) -> None:
        x86_registers.write_debugged(engine, name, value)

    def asleep(self, field: FieldAddress, memory: ReadWord) -> dict[str, int]:
        return x86_registers.asleep(memory.word(field("thread.sp")), memory.word)
