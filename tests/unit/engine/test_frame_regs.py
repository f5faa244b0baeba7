# SPDX-License-Identifier: GPL-2.0-or-later
"""Registers that a kernel has saved.

Tests kpfs.engine.arch.frames.
"""

from kpfs.engine.arch.arches import TEXT_TOOLS

AT = 0x1000


class Memory:
    def __init__(self):
        self.words = {AT + 8 * i: 100 + i for i in range(38)}

    def read_u64(self, addr):
        return self.words[addr]

    def write_u64(self, addr, value):
        self.words[addr] = value


def test_registers_by_name_and_by_number():
    memory = Memory()
    regs = TEXT_TOOLS["arm64"]().frame(memory, AT)
    assert (regs.x0, regs.x30, regs.sp, regs.pc, regs.pstate) == (
        100,
        130,
        131,
        132,
        133,
    )
    assert [regs[i] for i in range(34)] == list(range(100, 134))
    regs.x1 = -1
    regs[32] = 7
    assert (regs[1], regs.pc) == ((1 << 64) - 1, 7)
    assert repr(regs).startswith("<PtRegs x0=0x64 x1=0xffffffffffffffff ")


def test_registers_of_riscv64():
    regs = TEXT_TOOLS["riscv64"]().frame(Memory(), AT)
    assert (regs.epc, regs.ra, regs.a0, regs.t6) == (100, 101, 110, 131)
    assert (regs.status, regs.orig_a0) == (132, 135)
    assert [regs[i] for i in range(36)] == list(range(100, 136))


def test_registers_of_s390x():
    regs = TEXT_TOOLS["s390x"]().frame(Memory(), AT)
    assert (regs.pswa, regs.r0, regs.r2, regs.r15, regs.orig_gpr2) == (
        *(102, 103, 105, 118, 119),
    )


def test_registers_of_mips64():
    regs = TEXT_TOOLS["mips64"]().frame(Memory(), AT)
    found = regs.r0, regs.r31, regs.c0_status, regs.c0_epc
    assert found == (100, 131, 132, 137)


def test_registers_of_ppc64():
    regs = TEXT_TOOLS["ppc64"]().frame(Memory(), AT)
    found = regs.gpr0, regs.gpr31, regs.nip, regs.orig_gpr3
    assert found == (100, 131, 132, 134)


def test_registers_of_32_bits_lie_closer():
    memory = Memory()
    memory.words = {AT + 4 * i: 100 + i for i in range(18)}
    regs = TEXT_TOOLS["armhf"]().frame(memory, AT)
    assert (regs.r0, regs.fp, regs.sp, regs.lr, regs.pc) == (100, 111, 113, 114, 115)
    regs.pc = 7
    assert (regs[15], regs.orig_r0) == (7, 117)
    regs = TEXT_TOOLS["i386"]().frame(memory, AT)
    assert (regs.bx, regs.ax, regs.ip, regs.sp, regs.ss) == (100, 106, 112, 7, 116)
