# SPDX-License-Identifier: GPL-2.0-or-later
"""debugreg: the format of the registers, and what is raised; no guest."""

import struct

import pytest

from kpfs.base import abi
from kpfs.guest.emu.cpu import Cpu
from kpfs.guest.emu.cpu_registers import REG_DI, REG_IP, REG_SP
from kpfs.guest.emu.debugreg import DebugRegisters, Watched
from kpfs.guest.emu.memory import KERNEL_DATA
from kpfs.guest.emu.traps import Traps
from tests.unit.guest.bare import BareCpu

STORE = "48893f"  # mov %rdi, (%rdi)
W, RW = 1, 3
LEN = {1: 0, 2: 1, 4: 3, 8: 2}


class Registers(BareCpu):
    """Two CPUs with registers; what is raised is handled by a stop."""

    def __init__(self):
        super().__init__(nr_cpus=2)
        self.variable = self.data + 64
        page = self.memory.area.alloc(4096, KERNEL_DATA)
        self.pcpus = [page, page + 1024]
        self.handler = self.text + 0x100
        self.memory.write(self.handler, b"\xe7\x10\xeb\x00")
        traps = Traps(self.cpu, self.memory, lambda _name: self.handler)
        self.registers = DebugRegisters(self.cpu, self.memory, traps, self.pcpus)
        self.debug_stack = self.data + 4096
        for pcpu in self.pcpus:
            at = pcpu + abi.KpfsPcpu.debug_stack_top
            self.memory.write_u64(at, self.debug_stack)

    def set(self, cpu, number, addr, size, kind, on=True):
        pcpu = self.pcpus[cpu]
        self.memory.write_u64(pcpu + abi.KpfsPcpu.dr + 8 * number, addr)
        at = pcpu + abi.KpfsPcpu.dr7
        dr7 = self.memory.read_u64(at) & ~(0xF << 16 + 4 * number | 3 << 2 * number)
        dr7 |= (LEN[size] << 2 | kind) << 16 + 4 * number | on << 2 * number + 1
        self.memory.write_u64(at, dr7)
        assert self.registers.serve(abi.CTL_DEBUGREG, 0, 0) == 0

    def store(self, addr, cpu=0):
        """Store to an address; return where it stops, and dr6."""
        self.cpu.switch(cpu)
        self.memory.write_u64(self.pcpus[cpu] + abi.KpfsPcpu.dr6, 0)
        self.memory.write(self.pcpus[cpu] + abi.KpfsPcpu.debug_off, bytes(4))
        self.load(STORE)
        self.cpu.write_reg(REG_DI, addr)
        self.cpu.run()
        dr6 = self.memory.read_u64(self.pcpus[cpu] + abi.KpfsPcpu.dr6)
        return self.cpu.read_reg(REG_IP) > self.handler, dr6


@pytest.fixture
def regs():
    made = Registers()
    yield made
    made.cpu.close()


def test_raised_on_its_own_stack_with_the_cause(regs):
    regs.set(0, 2, regs.variable, 8, W)
    assert regs.store(regs.variable) == (True, 1 << 2)
    sp = regs.cpu.read_reg(REG_SP)
    assert sp == regs.debug_stack - 40
    ip, _cs, flags, old_sp, _ss = struct.unpack("<5Q", regs.memory.read(sp, 40))
    assert (ip - regs.text, flags & 0x100, old_sp) == (3, 0, regs.stack)
    off = regs.memory.read_u32(regs.pcpus[0] + abi.KpfsPcpu.debug_off)
    assert off == 1


@pytest.mark.parametrize("size", LEN)
def test_lengths(regs, size):
    regs.set(0, 0, regs.variable + 16, size, W)
    hit = [regs.store(regs.variable + n)[0] for n in range(40)]
    assert hit == [8 < n < 16 + size for n in range(40)]


def test_all_that_match_are_in_dr6(regs):
    regs.set(0, 0, regs.variable, 1, W)
    regs.set(0, 1, regs.variable + 8, 8, W)
    regs.set(0, 3, regs.variable + 4, 4, RW)
    assert regs.store(regs.variable) == (True, 0b1001)
    assert regs.store(regs.variable + 8) == (True, 0b0010)


def test_each_cpu_has_its_own(regs):
    regs.set(1, 0, regs.variable, 8, W)
    assert regs.store(regs.variable, 0) == (False, 0)
    assert regs.store(regs.variable, 1) == (True, 1)
    regs.set(1, 0, regs.variable, 8, W, on=False)
    assert regs.store(regs.variable, 1) == (False, 0)
    assert not regs.cpu._memory_hooks


def test_execution_and_memory_that_is_not_there(regs):
    regs.set(0, 0, regs.text, 1, 0)
    regs.set(0, 1, 0x1000, 4, W)
    assert not regs.cpu._memory_hooks
    assert regs.store(regs.variable) == (False, 0)


def test_what_overlaps():
    watched = Watched(1, 100, 103, reads=False)
    assert [n for n in range(90, 110) if watched.touched_by(True, n, 4)] == [
        97, 98, 99, 100, 101, 102, 103,
    ]  # fmt: skip
    assert not watched.touched_by(False, 100, 4)
    assert Watched(1, 100, 103, reads=True).touched_by(False, 103, 1)


def test_hooks_are_those_of_the_cpu(regs):
    assert isinstance(regs.cpu, Cpu)
    regs.set(0, 0, regs.variable, 8, W)
    regs.set(1, 0, regs.variable, 8, W)
    assert len(regs.cpu._memory_hooks) == 1  # the same memory
