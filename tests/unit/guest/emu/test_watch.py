# SPDX-License-Identifier: GPL-2.0-or-later
"""watch: which instructions touch memory, and where they have run; no guest."""

import pytest

from kpfs.guest.emu import cpu_registers
from kpfs.guest.emu.cpu_registers import REG_DI, REG_FLAGS, REG_IP, REG_SI, REG_SP
from kpfs.guest.emu.watch import DataWatch
from tests.unit.guest.bare import BareCpu

AX, CX = 10, 11
SIZE = 8  # bytes that are watched: the beginning of the data page
DB, UD, PF = 1, 6, 14


class Watched(BareCpu):
    """Notes what Watch says, and the traps that it hands on."""

    def __init__(self):
        super().__init__()
        self.on = True
        self.done, self.traps, self.accesses = [], [], []
        self.start = self.memory.translate(self.data, SIZE)
        self.watch = DataWatch(
            self.cpu,
            self.memory,
            self.on_trap,
            wanted=lambda: self.on,
            touched=self.on_touch,
            done=self.on_done,
        )
        self.watch.set([(self.start - 7, self.start + SIZE - 1)])

    def on_touch(self, write, addr, size):
        self.accesses.append((write, addr - self.start, size))
        near = addr < self.start + SIZE and addr + size > self.start
        return 0 if not near else 2 if write else 1

    def on_done(self, bits):
        self.done.append((bits, self.ip()))

    def on_trap(self, vector):
        self.traps.append((vector, self.ip()))
        self.cpu.clear_exception(vector)
        self.cpu.write_reg(REG_IP, self.text + 0x80)

    def go(self, code, flags=0x202, **registers):
        self.load(code, flags)
        self.memory.write(self.text + 0x80, b"\xe7\x10\xeb\x00")
        self.cpu.write_reg(REG_DI, self.data)
        for name, value in registers.items():
            self.cpu.write_reg({"si": REG_SI, "cx": CX, "sp": REG_SP}[name], value)
        self.cpu.run()
        found, self.done = self.done, []
        return found

    def value(self):
        return self.memory.read_u64(self.data)


@pytest.fixture(params=["window", "library"])
def watched(request, monkeypatch):
    if request.param == "library":
        monkeypatch.setattr(cpu_registers, "find_window", lambda engine, write: None)
    made = Watched()
    yield made
    made.cpu.close()


def test_the_place_behind_the_instruction(watched):
    assert watched.go("90 48893790 4889f7", si=7) == [(2, 4)]  # mov %rsi, (%rdi)
    assert watched.value() == 7
    assert watched.go("90 488b0790") == [(1, 4)]  # mov (%rdi), %rax
    assert watched.cpu.read_reg(AX) == 7
    assert watched.go("90 90 90") == []
    assert not watched.cpu.read_reg(REG_FLAGS) & 0x100


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("48ff07", 8),  # incq (%rdi)
        ("f048ff07", 8),  # lock
        ("480137", 12),  # add %rsi, (%rdi)
        ("f0480fc137", 12),  # lock xadd %rsi, (%rdi)
        ("488737", 5),  # xchg
        ("ff37 8f07", 7),  # push (%rdi); pop (%rdi)
    ],
)
def test_an_instruction_that_modifies_does_so_once(watched, code, value):
    watched.memory.write_u64(watched.data, 7)
    found = watched.go(code, si=5)
    assert [bits for bits, _ in found] in ([3], [1, 2])
    assert watched.value() == value
    assert watched.cpu.read_reg(REG_SP) == watched.stack


def test_many_in_one_block(watched):
    found = watched.go("488937" * 20, si=1)
    assert found == [(2, 3 * n) for n in range(1, 21)]


def test_rounds_of_a_repeated_instruction(watched):
    watched.memory.write(watched.data, bytes(range(16)))
    found = watched.go("f3a4", si=watched.data + 8, cx=3)  # rep movsb
    assert [bits for bits, _ in found] == [2] * 3
    assert found[0][1] == found[1][1] == 0
    assert watched.memory.read(watched.data, 4) == bytes((8, 9, 10, 3))
    assert watched.cpu.read_reg(CX) == 0


def test_a_write_over_what_it_reads(watched):
    """The second attempt reads what was there before the first."""
    watched.memory.write(watched.data - 0, bytes(range(1, 17)))
    watched.watch.set([(watched.start + 8, watched.start + 11)])
    watched.load("a5")  # movsl: four bytes from behind what is watched, over it
    watched.cpu.write_reg(REG_SI, watched.data + 6)
    watched.cpu.write_reg(REG_DI, watched.data + 8)
    watched.cpu.run()
    expected = bytes((1, 2, 3, 4, 5, 6, 7, 8, 7, 8, 9, 10, 13, 14, 15, 16))
    assert watched.memory.read(watched.data, 16) == expected


def test_pushed_flags_are_those_of_the_program(watched):
    found = watched.go("9c 90", flags=0x202, sp=watched.data + 8)
    assert [bits for bits, _ in found] == [2]
    assert watched.value() & 0xF00 == 0x200
    watched.memory.write_u64(watched.data, 0x246)
    assert watched.go("9d 90", sp=watched.data) == [(1, 1)]
    assert watched.cpu.read_reg(REG_FLAGS) == 0x246


def test_a_fault_in_the_instruction_is_only_a_fault(watched):
    # mov (%rdi), ... of a movs to address 0: it reads, and cannot write
    watched.load("488b3748a5")
    watched.memory.write(watched.text + 0x80, b"\xe7\x10\xeb\x00")
    watched.memory.write_u64(watched.data, watched.data)
    watched.cpu.write_reg(REG_SI, watched.data)
    watched.cpu.write_reg(REG_DI, 0x10)
    watched.cpu.write_reg(REG_IP, watched.text + 3)
    watched.cpu.run()
    assert watched.done == []
    assert watched.traps == [(PF, 3)]
    assert not watched.cpu.read_reg(REG_FLAGS) & 0x100


def test_after_a_trap_the_place_is_still_right(watched):
    watched.memory.write(watched.text + 0x84, b"\x90\x90\x48\x89\x37\xe7\x10\xeb\x00")
    watched.on_trap = lambda vector: None
    found = []

    def go_on_behind(vector):
        watched.traps.append((vector, watched.ip()))
        watched.cpu.write_reg(REG_IP, watched.text + 0x84)

    watched.watch._handle = go_on_behind
    found = watched.go("0f0b")  # ud2
    assert watched.traps == [(UD, 0)]
    assert found == [(2, 0x89)]


def test_not_wanted_is_not_touched(watched):
    watched.on = False
    assert watched.go("488937", si=7) == []
    assert watched.accesses == []
    assert watched.value() == 7


def test_as_fast_as_before_when_nothing_is_watched(watched):
    """No hook is left in the library, nor code that was made for one."""
    watched.watch.set([])
    assert watched.cpu._memory_hooks == []
    assert watched.go("488937", si=9) == []
    assert watched.accesses == []
    watched.watch.set([(watched.start, watched.start)])
    assert watched.go("488937", si=9) == [(2, 3)]
