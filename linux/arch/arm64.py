# SPDX-License-Identifier: GPL-2.0-or-later
"""arm64: its registers by libunicorn's numbers, in the order of images."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Mapping
from typing import ClassVar

from kpfs.base import abi
from kpfs.linux.arch.arch import Arch, Engine, ReadWord, Registers, cpu_of, fits
from kpfs.linux.arch.generic_calls import generic_call, open_flags

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
# offset of the state in libunicorn 2.1.4's processor, behind a jmp_buf of the host
STATE_IN_CPU = {"x86_64": 0xA350, "aarch64": 0xA3C0}
_X_IN_STATE = 0x40
_WORDS = struct.Struct("<31Q")
_SYSTEM = struct.Struct("<5I4xQ")  # uc_arm64_cp_reg: CRn, CRm, op0, op1, op2, value
_VECTOR = struct.Struct("<2Q")
_TABLE = 2  # in an entry of a page table
_STUB = struct.Struct("<II")  # adr x9, to itself; b to the gate
_ADR_X9, _B, _B_MASK, _INSN = 0x1000_0009, 5 << 26, (1 << 26) - 1, 4
_OWN = (
    "timer_control", "timer_at", "enabled", "raised", "active", "running", "control",
    "mask",
)  # fmt: skip


def read_system(engine: Engine, name: tuple[int, int, int, int, int]) -> int:
    op0, op1, crn, crm, op2 = name
    raw = _SYSTEM.pack(crn, crm, op0, op1, op2, 0)
    return int(_SYSTEM.unpack(engine.read_raw(SYSTEM, raw))[-1])


def write_system(
    engine: Engine, name: tuple[int, int, int, int, int], value: int
) -> None:
    op0, op1, crn, crm, op2 = name
    engine.write_raw(SYSTEM, _SYSTEM.pack(crn, crm, op0, op1, op2, value))


class Arm64(Arch):
    name = "arm64"
    engine = 2, 0
    cpu_model = 2  # UC_CPU_ARM64_A72
    functions = (
        "arm_cpu_do_interrupt_aarch64",
        "get_arm_cp_reginfo_aarch64",
        "arm_cpu_get_phys_page_attrs_debug_aarch64",
        "tb_invalidate_phys_range_aarch64",
        "qemu_ram_addr_from_host_aarch64",
    )
    arguments = tuple(GENERAL[name] for name in ("x0", "x1", "x2"))
    counter = PC
    syscall_argument = 0  # pt_regs.regs[0]
    stub_size, stub_register = 8, GENERAL["x9"]
    gate = b"\xc0\x03\x5f\xd6"  # ret
    cpu_fields: ClassVar = {
        name: abi.Cpu.own + getattr(abi.Arm64Cpu, name) for name in _OWN
    }
    board_fields: ClassVar = {
        "distributor": abi.Board.devices + abi.Arm64Devices.distributor
    }
    kept = "now", "deadline", "distributor", "current"
    kept_of_cpu = ("state", "since", "timer", *_OWN)
    kept_arrays: ClassVar = {}
    translates = True
    native = staticmethod(generic_call)
    open_flags = staticmethod(open_flags)
    syscall_prefix = "__arm64_sys_"
    elf_machine = 183  # EM_AARCH64
    breakpoint_size, ftrace_nop = 4, b"\x1f\x20\x03\xd5"
    present, page_address = 1, 0x0000_FFFF_FFFF_F000

    def stub(self, at: int, gate: int) -> bytes:
        distance = (gate - at - _INSN) // _INSN
        return _STUB.pack(_ADR_X9, _B | distance & _B_MASK)

    def return_address(self, engine: Engine, memory: ReadWord) -> int:
        return engine.read_reg(GENERAL["x30"])

    def return_now(self, engine: Engine, memory: ReadWord, value: int) -> None:
        engine.write_reg(GENERAL["x0"], value)
        engine.write_reg(PC, engine.read_reg(GENERAL["x30"]))

    def find_state(self, engine: Engine) -> int:
        values = [0x5EED_0000_1234_0000 + number for number in range(31)]
        for number, value in enumerate(values):
            engine.write_reg(GENERAL[f"x{number}"], value)
        address = cpu_of(engine) + STATE_IN_CPU[os.uname().machine]
        raw = ctypes.string_at(address + _X_IN_STATE, _WORDS.size)
        if _WORDS.unpack(raw) != tuple(values):
            return 0
        for number in range(31):
            engine.write_reg(GENERAL[f"x{number}"], 0)
        # as a loader leaves a processor that begins at EL1
        write_system(engine, _SCR_EL3, _NORMAL_WORLD)
        write_system(engine, _HCR_EL2, _EL1_IS_64_BIT)
        return address

    def features(self, engine: Engine) -> Mapping[int, int]:
        return {}

    def save(self, engine: Engine) -> Registers:
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
        return Registers(values, vectors, 0)

    def load(self, engine: Engine, saved: Registers) -> None:
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

    def is_sound(self, saved: Registers) -> bool:
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

    def page_table(self, saved: Registers) -> int:
        return saved.values["ttbr1_el1"] & self.page_address

    def maps(self, entry: int) -> bool:
        return not entry & _TABLE
