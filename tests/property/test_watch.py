# SPDX-License-Identifier: GPL-2.0-or-later
"""Watched code computes what it does unwatched, and all that touches is reported.

Random rows of instructions use memory around what is watched, on a bare CPU.  Which of
them touch it is seen by running each of them alone.
"""

import os
import random

import pytest

from kpfs.guest.emu.cpu_registers import REG_DI, REG_FLAGS, REG_IP, REG_SI, REG_SP
from kpfs.guest.emu.watch import DataWatch
from tests.unit.guest.bare import BareCpu

ROWS = 1000 if os.environ.get("KPFS_SLOW") else 60
LENGTH = 24  # instructions of a row
CX, AX, DX = 11, 10, 12
BUFFER = 256  # bytes; both pointers are in it
WATCHED = range(120, 128)
AF = 0x10  # some leave it undefined
STOP = bytes.fromhex("e710eb00")
# DISP is a displacement of one byte
INSTRUCTIONS = [
    "488947DISP", "8947DISP", "66894fDISP", "8857DISP",  # mov to (%rdi)
    "488b47DISP", "8b56DISP", "0fb657DISP", "480fbf46DISP",  # mov, movzx, movsx
    "48ff47DISP", "f0480147DISP", "294eDISP", "807fDISP00",  # inc, add, sub, cmp
    "488747DISP", "f0480fc157DISP", "f0480fb157DISP",  # xchg, xadd, cmpxchg
    "c747DISP78563412", "f657DISP", "48f767DISP", "d367DISP",  # mov, not, mul, shl
    "ff77DISP", "8f47DISP", "50", "5a", "9c", "e80000000058", "4883c408",  # stack
    "0f9347DISP", "0fc8",  # setcc, bswap
    "a4", "48a5", "aa", "48ab", "ac", "a6", "f3a4", "f348a5", "f3aa", "f3a6",
    "488d7f08", "488d76f8", "4883ef10", "4883c604", "b903000000", "48ffc0", "48c1c80d",
]  # fmt: skip


class Machine(BareCpu):
    def __init__(self):
        super().__init__()
        self.handler = self.text + 0x800
        self.memory.write(self.handler, STOP)
        self.start = self.memory.translate(self.data + WATCHED.start, len(WATCHED))
        self.found: list[tuple[int, int]] = []
        self.bits = 0
        self.watch = DataWatch(
            self.cpu,
            self.memory,
            self.on_trap,
            wanted=lambda: True,
            touched=self.touched,
            done=lambda bits: self.found.append((self.ip(), bits)),
        )

    def on_trap(self, vector):
        raise AssertionError(f"trap {vector} at {self.ip():#x}")

    def touched(self, write, addr, size):
        near = addr < self.start + len(WATCHED) and addr + size > self.start
        return (2 if write else 1) if near else 0

    def ranges(self):
        return [(self.start - 7, self.start + len(WATCHED) - 1)]

    def begin(self, state):
        """Registers and memory; the text is there already."""
        registers, memory = state
        self.cpu.write_regs(registers)
        self.memory.write(self.data, memory)

    def state(self):
        registers = list(self.cpu.read_regs())
        registers[REG_IP] = 0
        registers[REG_FLAGS] &= ~AF
        return registers, self.memory.read(self.data, 8192)

    def put(self, code):
        self.memory.write(self.text, code + STOP)
        self.cpu.drop(self.text, len(code) + len(STOP))

    def one(self, code, at, state):
        """Run an instruction at its place, alone: (next state, place, what is found).

        The last round of a repeated one is behind it, though counting does not say so.
        """
        self.put(code)
        self.begin(state)
        found, touched = [], 0
        self.cpu.write_reg(REG_IP, self.text + at)
        while self.ip() == at:
            self.bits = 0
            self.cpu.run(count=1)
            if self.ip() != at or self.cpu.read_reg(CX) == 0:
                touched |= self.bits
            elif self.bits:
                found.append((at, self.bits))
        if touched:
            found.append((self.ip(), touched))
        return self.state(), self.ip(), found


@pytest.fixture(scope="module")
def machine():
    made = Machine()
    yield made
    made.cpu.close()


def random_code(rng):
    pieces = []
    for _ in range(LENGTH):
        text = rng.choice(INSTRUCTIONS).replace(" ", "")
        pieces.append(bytes.fromhex(text.replace("DISP", f"{rng.randrange(64):02x}")))
    return pieces


def random_state(rng, machine):
    registers = [rng.getrandbits(64) for _ in range(21)]
    registers[REG_IP] = machine.text
    registers[REG_FLAGS] = 0x202
    registers[CX] = rng.randrange(6)
    registers[REG_DI] = machine.data + 64 + rng.randrange(64)
    registers[REG_SI] = machine.data + 64 + rng.randrange(64)
    registers[REG_SP] = machine.data + 96 + 8 * rng.randrange(6)
    memory = rng.randbytes(BUFFER) + bytes(8192 - BUFFER)
    return registers, memory


def reports(machine, pieces, state):
    """Return the expected reports: (ip behind the instruction, bits) each."""

    def note(write, addr, size):
        machine.bits |= machine.touched(write, addr, size)

    machine.cpu.accessed = note
    machine.cpu.hook_memory(machine.ranges())
    code, at, found = b"".join(pieces), 0, []
    while at < len(code):
        state, at, rounds = machine.one(code, at, state)
        found += rounds
    machine.cpu.hook_memory([])
    machine.cpu.accessed = machine.watch._accessed
    return found


def run(machine, pieces, state):
    """Run all at once; the end."""
    machine.put(b"".join(pieces))
    machine.begin(state)
    machine.cpu.write_reg(REG_IP, machine.text)
    machine.cpu.run()
    return machine.state()


@pytest.mark.parametrize("seed", range(ROWS))
def test_watched_code_computes_the_same(machine, seed):
    rng = random.Random(seed)
    pieces, state = random_code(rng), random_state(rng, machine)
    found = reports(machine, pieces, state)
    end = run(machine, pieces, state)
    machine.found = []
    machine.watch.set(machine.ranges())
    assert run(machine, pieces, state) == end
    machine.watch.set([])
    assert machine.found == found


def test_the_rows_touch_a_lot(machine):
    """Rows that touch little would prove nothing."""
    counts = []
    for seed in range(20):
        rng = random.Random(seed)
        pieces, state = random_code(rng), random_state(rng, machine)
        counts.append(len(reports(machine, pieces, state)))
    assert sum(counts) > 60
