# SPDX-License-Identifier: GPL-2.0-or-later
"""arm64: its registers by libunicorn's numbers, in the order of images."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Mapping
from typing import ClassVar

from kpfs.base import abi
from kpfs.base.data_model import LITTLE_64
from kpfs.emulator import libunicorn
from kpfs.linux.arch.arch import (
    Args,
    Engine,
    FieldAddress,
    LinuxArch,
    ReadWord,
    SavedRegisters,
    fits,
    placed,
)
from kpfs.linux.arch.generic_calls import generic_call

# UC_ARM64_REG_*
GENERAL = {f"x{n}": 199 + n for n in range(29)} | {"x29": 1, "x30": 2, "sp": 4}
PC, PSTATE, SYSTEM, FPCR, FPSR = 260, 265, 290, 291, 292
VECTORS = {f"q{n}": 104 + n for n in range(32)}
# op0, op1, CRn, CRm, op2
SYSTEM_REGISTERS = {
    "sctlr_el1": (3, 0, 1, 0, 0),
    "actlr_el1": (3, 0, 1, 0, 1),
    "cpacr_el1": (3, 0, 1, 0, 2),
    "ttbr0_el1": (3, 0, 2, 0, 0),
    "ttbr1_el1": (3, 0, 2, 0, 1),
    "tcr_el1": (3, 0, 2, 0, 2),
    "spsr_el1": (3, 0, 4, 0, 0),
    "elr_el1": (3, 0, 4, 0, 1),
    "sp_el0": (3, 0, 4, 1, 0),
    "sp_el1": (3, 4, 4, 1, 0),
    "afsr0_el1": (3, 0, 5, 1, 0),
    "afsr1_el1": (3, 0, 5, 1, 1),
    "far_el1": (3, 0, 6, 0, 0),
    "par_el1": (3, 0, 7, 4, 0),
    "pmcr_el0": (3, 3, 9, 12, 0),
    "pmuserenr_el0": (3, 3, 9, 14, 0),
    "mair_el1": (3, 0, 10, 2, 0),
    "amair_el1": (3, 0, 10, 3, 0),
    "vbar_el1": (3, 0, 12, 0, 0),
    "contextidr_el1": (3, 0, 13, 0, 1),
    "tpidr_el1": (3, 0, 13, 0, 4),
    "tpidr_el0": (3, 3, 13, 0, 2),
    "tpidrro_el0": (3, 3, 13, 0, 3),
    "cntkctl_el1": (3, 0, 14, 1, 0),
    "csselr_el1": (3, 2, 0, 0, 0),
    "mdscr_el1": (2, 0, 0, 2, 2),
    "esr_el1": (3, 0, 5, 2, 0),
}
_SCR_EL3, _HCR_EL2 = (3, 6, 1, 1, 0), (3, 4, 1, 1, 0)
_NORMAL_WORLD = 0x531  # EL2 is 64-bit and not secure, and may call
_EL1_IS_64_BIT = 1 << 31
_VMPIDR_EL2 = (3, 4, 0, 0, 5)
_DAIF = 0x3C0  # in PSTATE
_SVC, _SVC_NUMBER, _SVC_SYNDROME, _SVC_EXCEPTION = 0xD400_0001, 0x5EED, 0x5600_0000, 2
_NO_EXCEPTION, _EL1 = -1, 1
_SYSTEM = LITTLE_64.struct("5I4xQ")  # uc_arm64_cp_reg: CRn, CRm, op0, op1, op2, value
_VECTOR = LITTLE_64.struct("2Q")
_U32 = 0xFFFF_FFFF
# flags of open that are elsewhere: O_DIRECT and O_LARGEFILE two bits above, O_DIRECTORY
# and O_NOFOLLOW two bits below their places
_UP, _DOWN = 0o140000, 0o600000
_TABLES = {"ttbr0_el1": abi.ARM64_STATE_TTBR0, "ttbr1_el1": abi.ARM64_STATE_TTBR1}
_STUB = LITTLE_64.struct("II")  # adr x9, to itself; b to the gate
_ADR_X9, _B, _B_MASK, _INSN = 0x1000_0009, 5 << 26, (1 << 26) - 1, 4
# what a sleeping task has left.  Kernel: struct cpu_context
_SWITCH_FRAME = *(f"x{n}" for n in range(19, 30)), "sp", "pc"
# what debuggers show, by their names
_SHOWN = {**GENERAL, "pc": PC, "cpsr": PSTATE}
_SHOWN_SYSTEM = (
    *("sctlr_el1", "ttbr0_el1", "ttbr1_el1", "tcr_el1", "mair_el1", "vbar_el1"),
    *("spsr_el1", "elr_el1", "esr_el1", "far_el1", "sp_el0"),
    *("tpidr_el0", "tpidr_el1", "contextidr_el1"),
)


def read_system(engine: Engine, name: tuple[int, int, int, int, int]) -> int:
    op0, op1, crn, crm, op2 = name
    raw = _SYSTEM.pack(crn, crm, op0, op1, op2, 0)
    return int(_SYSTEM.unpack(engine.read_raw(SYSTEM, raw))[-1])


def write_system(
    engine: Engine, name: tuple[int, int, int, int, int], value: int
) -> None:
    op0, op1, crn, crm, op2 = name
    engine.write_raw(SYSTEM, _SYSTEM.pack(crn, crm, op0, op1, op2, value))


def _keeps_registers(engine: Engine, at: int) -> bool:
    """Return True if registers that are written are found in the state."""
    values = [0x5EED_0000_1234_0000 + number for number in range(31)]
    wanted = {abi.ARM64_STATE_X + 8 * n: value for n, value in enumerate(values)}
    for number, value in enumerate(values):
        engine.write_reg(GENERAL[f"x{number}"], value)
    wanted[abi.ARM64_STATE_PC] = 0x5EED_0000
    engine.write_reg(PC, wanted[abi.ARM64_STATE_PC])
    kept = {
        abi.ARM64_STATE_TTBR0: SYSTEM_REGISTERS["ttbr0_el1"],
        abi.ARM64_STATE_TTBR1: SYSTEM_REGISTERS["ttbr1_el1"],
        abi.ARM64_STATE_MPIDR: _VMPIDR_EL2,
        abi.ARM64_STATE_SP_EL0: SYSTEM_REGISTERS["sp_el0"],
    }
    for offset, name in kept.items():
        before = read_system(engine, name)
        write_system(engine, name, before ^ 0x5EED_0000)
        if _word(at, offset) != before ^ 0x5EED_0000:
            return False
        write_system(engine, name, before)
    daif = engine.read_reg(PSTATE) & _DAIF
    return daif == _word(at, abi.ARM64_STATE_DAIF) & _U32 and all(
        _word(at, offset) == value for offset, value in wanted.items()
    )


def _keeps_calls(engine: Engine, at: int, exception: int) -> bool:
    """Return True if what an SVC leaves is found in the state and the processor."""
    kind = ctypes.c_int32.from_address(exception)
    if kind.value != _NO_EXCEPTION:
        return False
    with contextlib.suppress(libunicorn.EmulatorError):  # nobody takes it
        engine.execute(LITTLE_64.raw(_SVC | _SVC_NUMBER << 5, _INSN))
    taken, kind.value = kind.value, _NO_EXCEPTION
    return (
        taken == _SVC_EXCEPTION
        and _word(at, abi.ARM64_STATE_SYNDROME) == _SVC_SYNDROME | _SVC_NUMBER
        and _word(at, abi.ARM64_STATE_TARGET) & _U32 == _EL1
    )


def find_state(engine: Engine, *, kernel_is_64_bit: bool = True) -> int:
    """Return the address of a new processor's state; 0: it is not where we know.

    It is then as a loader leaves a processor that begins at EL1.
    """
    at = libunicorn.state_of(engine.address)
    exception = libunicorn.processor_of(engine.address)
    exception += libunicorn.in_processor(abi.PROCESSOR_EXCEPTION)
    if not _keeps_registers(engine, at) or not _keeps_calls(engine, at, exception):
        return 0
    for number in (*GENERAL.values(), PC):
        engine.write_reg(number, 0)
    write_system(engine, _SCR_EL3, _NORMAL_WORLD)
    write_system(engine, _HCR_EL2, _EL1_IS_64_BIT if kernel_is_64_bit else 0)
    return at


def _word(at: int, offset: int) -> int:
    """Return a word of libunicorn's memory."""
    return ctypes.c_uint64.from_address(at + offset).value


class LinuxArm64(LinuxArch):
    name = "arm64"
    engine = 2, 0
    cpu_model = 2  # UC_CPU_ARM64_A72
    exported_as = "aarch64"
    engine_page = 1024
    load_here = b"\x00\x00\x00\x58"  # ldr x0, .
    arguments = tuple(GENERAL[name] for name in ("x0", "x1", "x2"))
    fourth_argument = GENERAL["x3"]
    result, stack_pointer = GENERAL["x0"], GENERAL["sp"]
    counter = PC
    link = GENERAL["x30"]
    syscall_arguments = 0, 8, 16, 24  # pt_regs.regs
    stub_size, stub_register = 8, GENERAL["x9"]
    gate = b"\xc0\x03\x5f\xd6"  # ret
    cpu_fields: ClassVar = placed(abi.Cpu.own, abi.Arm64Cpu, "domains")
    board_fields: ClassVar = placed(abi.Board.devices, abi.Arm64Devices)
    kept = "now", "deadline", "distributor", "current"
    kept_of_cpu = "state", "since", "timer", *cpu_fields
    translates = True
    syscall_prefix = "__arm64_sys_"
    elf_machine = 183  # EM_AARCH64
    switch_fields: ClassVar = {"thread.cpu_context": -8 * _SWITCH_FRAME.index("sp")}
    shown = *_SHOWN, *_SHOWN_SYSTEM
    breakpoint_size, ftrace_nop = 4, b"\x1f\x20\x03\xd5"
    pauses = b"\x5f\x20\x03\xd5", b"\x3f\x20\x03\xd5"  # wfe, yield

    @staticmethod
    def native(number: int, args: Args) -> tuple[int, Args]:
        return generic_call(number, args, LinuxArm64.open_flags)

    @staticmethod
    def open_flags(flags: int) -> int:
        return flags & ~(_UP | _DOWN) | (flags & _UP) << 2 | (flags & _DOWN) >> 2

    def stub(self, at: int, gate: int) -> bytes:
        distance = (gate - at - _INSN) // _INSN
        return _STUB.pack(_ADR_X9, _B | distance & _B_MASK)

    def find_state(self, engine: Engine) -> int:
        return find_state(engine)

    def features(self, engine: Engine) -> Mapping[int, int]:
        return {}

    def save(self, engine: Engine) -> SavedRegisters:
        values = {name: engine.read_reg(reg) for name, reg in GENERAL.items()}
        values |= {"pc": engine.read_reg(PC)}
        values |= {"pstate": engine.read_reg(PSTATE) & 0xFFFF_FFFF}
        values |= {"fpcr": engine.read_reg(FPCR), "fpsr": engine.read_reg(FPSR)}
        for name, place in SYSTEM_REGISTERS.items():
            values[name] = read_system(engine, place)
        vectors = {
            name: list(_VECTOR.unpack(engine.read_raw(reg, bytes(_VECTOR.size))))
            for name, reg in VECTORS.items()
        }
        return SavedRegisters(values, vectors, 0)

    def load(self, engine: Engine, saved: SavedRegisters) -> None:
        values = saved.values
        engine.write_reg(PSTATE, values["pstate"])
        for name, place in SYSTEM_REGISTERS.items():
            write_system(engine, place, values[name])
        engine.write_reg(PSTATE, values["pstate"])
        for name, reg in GENERAL.items():
            engine.write_reg(reg, values[name])
        for name, reg in VECTORS.items():
            engine.write_raw(reg, _VECTOR.pack(*saved.tables[name]))
        engine.write_reg(FPCR, values["fpcr"])
        engine.write_reg(FPSR, values["fpsr"])
        engine.write_reg(PC, values["pc"])
        # a system register has libunicorn look at PSTATE anew
        write_system(engine, SYSTEM_REGISTERS["esr_el1"], values["esr_el1"])

    def is_sound(self, saved: SavedRegisters) -> bool:
        kept = {*GENERAL, "pc", "pstate", "fpcr", "fpsr", *SYSTEM_REGISTERS}
        vectors = saved.tables
        return (
            saved.values.keys() == kept
            and all(fits(number, 64) for number in saved.values.values())
            and vectors.keys() == VECTORS.keys()
            and all(len(row) == 2 for row in vectors.values())
            and all(fits(word, 64) for row in vectors.values() for word in row)
            and saved.mode == 0
        )

    def place(self, saved: SavedRegisters, state: int) -> None:
        for name, at in _TABLES.items():
            ctypes.c_uint64.from_address(state + at).value = saved.values[name]

    def debugged(self, engine: Engine, name: str) -> int:
        if name in _SHOWN_SYSTEM:
            return read_system(engine, SYSTEM_REGISTERS[name])
        value = engine.read_reg(_SHOWN[name])
        return value & _U32 if name == "cpsr" else value

    def set_debugged(self, engine: Engine, name: str, value: int) -> None:
        if name in _SHOWN_SYSTEM:
            write_system(engine, SYSTEM_REGISTERS[name], value)
        else:
            engine.write_reg(_SHOWN[name], value)

    def asleep(self, field: FieldAddress, memory: ReadWord) -> dict[str, int]:
        at = field("thread.cpu_context")
        return {name: memory.word(at + 8 * n) for n, name in enumerate(_SWITCH_FRAME)}
