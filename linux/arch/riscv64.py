# SPDX-License-Identifier: GPL-2.0-or-later
"""riscv64: its registers, by their places in libunicorn's state."""

from __future__ import annotations

from typing import ClassVar

from kpfs.base import abi
from kpfs.base.data_model import LITTLE_64
from kpfs.linux.arch.arch import Engine, FieldAddress, ReadWord, SavedRegisters, placed
from kpfs.linux.arch.generic_calls import generic_call
from kpfs.linux.arch.state import StateArch, address_of, word

X = {f"x{n}": 1 + n for n in range(32)}  # UC_RISCV_REG_*
PC = 190
RA, A0, A1, A2 = (X[f"x{n}"] for n in (1, 10, 11, 12))
_S = abi.Riscv64State
# what an image keeps, by offsets in the state
STATE = {
    **{f"x{n}": _S.x + 8 * n for n in range(1, 32)},
    **{f"f{n}": _S.f + 8 * n for n in range(32)},
    **{
        name: getattr(_S, name)
        for name in (
            *("pc", "frm", "priv", "mstatus", "satp", "stval", "stvec", "sepc"),
            *("scause", "scounteren", "sscratch"),
        )
    },
    "fp_status": abi.RISCV64_FP,
}
_USER, _KERNEL = 0, 1  # values of priv
# csrw sscratch, t0; csrw scounteren, t1; csrw stvec, t2
_CHECK = LITTLE_64.struct("3I").pack(0x1402_9073, 0x1063_1073, 0x1053_9073)
_CHECKED = {"x5": "sscratch", "x6": "scounteren", "x7": "stvec"}
_STUB = LITTLE_64.struct("II")  # auipc t1, 0; jal zero, to the gate
_AUIPC_T1, _JAL, _INSN = 0x317, 0x6F, 4
# what debuggers call them, by libunicorn's state
_DEBUGGED = {
    **{f"x{n}": f"x{n}" for n in range(1, 32)},
    "pc": "pc",
    "priv": "priv",
    "sstatus": "mstatus",
    **{name: name for name in ("satp", "stvec", "sepc", "scause", "stval", "sscratch")},
}
_READ_ONLY = "priv", "sstatus"
_SSTATUS = 0x8000_0003_000D_E762  # the bits of mstatus that it shows
# what a sleeping task has left: s0 to s11.  Kernel: struct thread_struct
_SAVED = 8, 9, *range(18, 28)


class LinuxRiscv64(StateArch):
    name = "riscv64"
    state = STATE
    engine = 8, 8
    cpu_model = 1  # UC_CPU_RISCV64_BASE64
    exported_as = "riscv64"
    load_here = LITTLE_64.struct("II").pack(
        0x517, 0x5_3503
    )  # auipc a0, 0; ld a0, 0(a0)
    arguments = A0, A1, A2
    fourth_argument = X["x13"]
    result, stack_pointer = A0, X["x2"]
    counter = PC
    link = RA
    syscall_arguments = 35 * 8, 11 * 8, 12 * 8, 13 * 8  # pt_regs.orig_a0, a1 to a3
    stub_size, stub_register = 8, X["x6"]
    gate = b"\x67\x80\x00\x00"  # ret
    cpu_fields: ClassVar = placed(abi.Cpu.own, abi.Riscv64Cpu, "fp_status")
    board_fields: ClassVar = {}
    translates = True
    native = staticmethod(generic_call)
    syscall_prefix = "__riscv_sys_"
    elf_machine = 243  # EM_RISCV
    switch_fields: ClassVar = {"thread.ra": -8, "thread.sp": 0, "thread.s": 8}
    shown = *_DEBUGGED, "x0"
    breakpoint_size, ftrace_nop = 4, b"\x13\x00\x00\x00" * 2
    pauses = ()
    wanted = (
        "ARCH_HAVE_NMI_SAFE_CMPXCHG",
        "was built so that kprobe events count hits but record none, and entries "
        "of traceable functions cannot be probed (newer kernels do both)",
    )

    def stub(self, at: int, gate: int) -> bytes:
        return _STUB.pack(_AUIPC_T1, _jump(gate - at - _INSN))

    def find_state(self, engine: Engine) -> int:
        values = {f"x{n}": 0x5EED_0000_1234_0000 + 4 * n for n in range(1, 32)}
        for name, value in values.items():
            engine.write_reg(X[name], value)
        engine.execute(_CHECK)
        address = address_of(engine)
        known = {name: word(address + STATE[name]).value for name in values} == values
        for name, register in _CHECKED.items():
            known = known and word(address + STATE[register]).value == values[name]
            word(address + STATE[register]).value = 0
        for name in values:
            engine.write_reg(X[name], 0)
        return address if known else 0

    def is_sound(self, saved: SavedRegisters) -> bool:
        return super().is_sound(saved) and saved.values["priv"] in (_USER, _KERNEL)

    def debugged(self, engine: Engine, name: str) -> int:
        if name == "x0":
            return 0
        value = word(address_of(engine) + STATE[_DEBUGGED[name]]).value
        return value & _SSTATUS if name == "sstatus" else value

    def set_debugged(self, engine: Engine, name: str, value: int) -> None:
        if name in _READ_ONLY:
            raise KeyError(name)
        word(address_of(engine) + STATE[_DEBUGGED[name]]).value = value

    def asleep(self, field: FieldAddress, memory: ReadWord) -> dict[str, int]:
        ra, saved = memory.word(field("thread.ra")), field("thread.s")
        found = {f"x{n}": memory.word(saved + 8 * i) for i, n in enumerate(_SAVED)}
        return found | {"pc": ra, "x1": ra, "x2": memory.word(field("thread.sp"))}


def _jump(distance: int) -> int:
    """Return jal zero, over so many bytes."""
    bits = (distance >> 20 & 1) << 31 | (distance >> 1 & 0x3FF) << 21
    return _JAL | bits | (distance >> 11 & 1) << 20 | (distance >> 12 & 0xFF) << 12
