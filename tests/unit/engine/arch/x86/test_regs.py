# SPDX-License-Identifier: GPL-2.0-or-later
"""struct pt_regs as handlers see it."""

import struct

import pytest

from kpfs.engine.arch.x86.regs import (
    INDEX,
    NAMES,
    FramePtRegs,
    LivePtRegs,
    regs_get_kernel_argument,
)
from tests.there import stand_in

STACK = 0x1000


class Machine:
    """Registers and a little memory."""

    def __init__(self):
        self.values = list(range(100, 121))
        self.values[INDEX["sp"]] = STACK
        self.memory = bytearray(0x2000)
        struct.pack_into("<4Q", self.memory, STACK, 7, 8, 9, 10)
        self.reads = 0
        self.written = {}

    def read_reg(self, index):
        self.reads += 1
        return self.values[index]

    def write_reg(self, index, value):
        self.written[index] = value

    def read(self, addr, size):
        return bytes(self.memory[addr : addr + size])

    def read_u64(self, addr):
        return struct.unpack_from("<Q", self.memory, addr)[0]

    def write_u64(self, addr, value):
        struct.pack_into("<Q", self.memory, addr, value)


@pytest.fixture
def live():
    machine = Machine()
    regs = LivePtRegs(stand_in(machine))
    regs.trap_ip = 0x55
    return machine, regs


@pytest.fixture
def frame():
    machine = Machine()
    struct.pack_into("<21Q", machine.memory, 0x100, *machine.values)
    regs = FramePtRegs(stand_in(machine))
    regs.addr = 0x100
    return machine, regs


def test_live_reads_only_what_is_asked_for(live):
    machine, regs = live
    assert machine.reads == 0
    assert (regs.di, regs.ax, regs.ip) == (114, 110, 0x55)
    assert machine.reads == 2
    assert (regs.orig_ax, regs.cs, regs.ss) == ((1 << 64) - 1, 0x10, 0x18)


def test_live_writes_back_what_was_changed(live):
    machine, regs = live
    assert regs.write_back() == 0x55
    assert machine.written == {}
    regs.ax = -1
    regs.ip = 0x99
    regs.flags |= 1
    assert (regs.ax, regs.ip) == ((1 << 64) - 1, 0x99)
    # ip goes by the trap's answer
    assert regs.write_back() == 0x99
    assert machine.written == {INDEX["ax"]: (1 << 64) - 1, INDEX["flags"]: 119}
    machine.written.clear()
    regs.write_back()
    assert machine.written == {}


def test_frame_writes_through(frame):
    machine, regs = frame
    assert list(regs) == machine.values
    regs.r15 = 5
    regs[INDEX["si"]] = 6
    assert (regs.r15, regs.si) == (5, 6)
    assert struct.unpack_from("<21Q", machine.memory, 0x100) == tuple(regs)


@pytest.mark.parametrize("name", NAMES)
def test_every_register_has_its_word(frame, name):
    machine, regs = frame
    setattr(regs, name, 0xABC)
    assert getattr(regs, name) == 0xABC
    assert machine.read_u64(0x100 + 8 * INDEX[name]) == 0xABC


def test_arguments(live):
    _, regs = live
    names = ("di", "si", "dx", "cx", "r8", "r9")
    expected = [getattr(regs, name) for name in names]
    assert [regs_get_kernel_argument(regs, n) for n in range(6)] == expected
    # the return address is below the seventh
    assert [regs_get_kernel_argument(regs, n) for n in (6, 7)] == [8, 9]


def test_repr_names_all(live):
    _, regs = live
    assert all(f"{name}=" in repr(regs) for name in NAMES)
