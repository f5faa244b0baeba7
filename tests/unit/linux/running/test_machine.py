# SPDX-License-Identifier: GPL-2.0-or-later
"""Requests as they lie in the memory that guest and host share."""

import errno
import itertools
import mmap
from types import SimpleNamespace

import pytest

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.data_model import LITTLE_64
from kpfs.base.errors import KernelError
from kpfs.linux.running import machine as machine_room
from kpfs.linux.running.machine import (
    FINALLY,
    STOP,
    Batch,
    LinuxMachine,
    MachineDiedError,
    Op,
    Out,
    Reply,
    Result,
    SlotOffset,
)
from tests.there import stand_in

SIZE = abi.AgentOp.SIZE


def kinds(batch, number):
    at = number * SIZE + abi.AgentOp.kinds
    return list(batch.ops[at : at + abi.NR_ARGS])


def args(batch, number):
    at = number * SIZE + abi.AgentOp.args
    raw = batch.ops[at : at + 8 * abi.NR_ARGS]
    return [int.from_bytes(raw[i : i + 8], "little") for i in range(0, len(raw), 8)]


def test_what_arguments_are():
    ops = [
        Op(nr.OPENAT, (-100, b"/a\0", 2), STOP),
        Op(nr.READ, (Result(0), Out(10), 10)),
        Op(nr.CLOSE, (Result(0, 1), SlotOffset(4)), FINALLY),
    ]
    batch = Batch(ops, b"12345678")
    assert batch.count == 3
    assert len(batch.ops) == 3 * SIZE
    value, data = abi.ARG_VALUE, abi.ARG_DATA
    assert kinds(batch, 0)[:3] == [value, data, value]
    assert kinds(batch, 1)[:3] == [abi.ARG_RESULT, data, value]
    assert args(batch, 0)[:3] == [2**64 - 100, 8, 2]
    assert args(batch, 2)[:2] == [1, 4]
    assert bytes(batch.data) == b"12345678" + b"/a\0"
    assert batch.size == 32
    assert batch.places == [8, 16]
    flags = [batch.ops[i * SIZE + abi.AgentOp.flags] for i in range(3)]
    assert flags == [STOP, 0, FINALLY]


def test_data_behind_room():
    read, write = Op(nr.READ, (Out(10),)), Op(nr.WRITE, (b"abc",))
    batch = Batch([read, write, Op(nr.READ, (Out(100),))])
    assert batch.places == [0, 16, 24]
    assert bytes(batch.data) == bytes(16) + b"abc"
    assert batch.size == 128


# ---- what a root of the kernel may write there
class FakeBoard:
    """A board that stops as the test says, with some turn of the host ahead."""

    def __init__(self, *stops):
        self.region, self.ram = mmap.mmap(-1, abi.REGION_SIZE), mmap.mmap(-1, 4096)
        self.script = itertools.cycle(stops)
        self.stops = None
        self.counter = SimpleNamespace(hooks_need_no_pc=False)
        self.late = 0
        self.words = {abi.Board.host_turn: 100}
        self.arch = SimpleNamespace(
            arguments=(0,), passes_by_stack=False, translates=False, model=LITTLE_64
        )

    def run(self):
        why, self.words[abi.Board.who], self.blocks = next(self.script)
        return why

    def get(self, field):
        return self.words.get(field, 0)

    def get_cpu(self, number, field):
        return self.late

    def read_reg(self, number):
        return 0

    def translate(self, address):
        return 0

    def set(self, **values):
        self.words.update({getattr(abi.Board, name): v for name, v in values.items()})


def answer(machine, slot, result):
    """Have a task's first operation return a number."""
    at = abi.SLOTS_AT + slot * abi.SLOT_SIZE + abi.AgentSlot.ops + abi.AgentOp.ret
    machine.region[at : at + 8] = (result % (1 << 64)).to_bytes(8, "little")


@pytest.mark.parametrize(
    ("raw", "seen"),
    [(5, 5), (-2, -2), (-4095, -4095), (-4096, -errno.EIO), (-(1 << 63), -errno.EIO)],
)
def test_an_error_is_one_that_kernels_have(raw, seen):
    machine = LinuxMachine(stand_in(FakeBoard()))
    answer(machine, 3, raw)
    assert machine.results(3, 1) == [seen]
    assert machine.values(3, 1) == [raw]


@pytest.mark.parametrize("size", [11, 1 << 31, 1 << 63, -1])
def test_more_than_there_is_room_for_cannot_have_been_written(size):
    """The rest would be written behind the buffer of a command that reads."""
    machine = LinuxMachine(stand_in(FakeBoard()))
    places = machine.start(3, [Op(nr.READ, (Out(10),)), Op(nr.READ, (b"abc",))])
    answer(machine, 3, size)
    reply = Reply(machine, 3, places, 2)
    assert len(reply.out(0, 10)) == 10
    for number in (0, 1):
        with pytest.raises(KernelError) as raised:
            reply.out(number, size)
        assert raised.value.errno == errno.EIO
    assert reply.taken(0, 10) == (size if size < 10 else -errno.EIO)


def test_a_sequence_begins_anew_behind_its_last_number():
    machine = LinuxMachine(stand_in(FakeBoard()))
    at = abi.SLOTS_AT + 3 * abi.SLOT_SIZE
    machine.region[at : at + 16] = b"\xff" * 16
    machine.adopt()
    machine.start(3, [Op(nr.READ)])
    assert not machine.has_done(3)
    machine.region[at + 8 : at + 16] = machine.region[at : at + 8]
    assert machine.has_done(3)


@pytest.mark.parametrize("who", [3, 511, 1 << 40, (1 << 64) - 1])
def test_a_kernel_that_only_pauses_does_not_come_to_rest(who):
    machine = LinuxMachine(stand_in(FakeBoard((abi.STOP_PAUSE, who, 100))))
    machine.start(5, [Op(nr.READ)])
    with pytest.raises(MachineDiedError, match="does not come to rest"):
        machine.run(5)
    machine.dead = ""
    with pytest.raises(MachineDiedError, match="does not come to rest"):
        machine.settle(0)


@pytest.mark.parametrize(
    ("slow", "debugged", "most"),
    [
        (False, False, machine_room.MAX_SECONDS),
        (True, False, machine_room.MIN_SECONDS),
        (True, True, machine_room.MAX_SECONDS),
    ],
)
def test_turns_that_the_host_s_clock_ended_count_by_its_processor_time(
    monkeypatch, slow, debugged, most
):
    """A kernel that a debugger makes slow may take longer."""
    seconds = itertools.count(0, 1)
    board = FakeBoard((abi.STOP_TURN, 0, 10))

    def thread_time():
        if not slow:
            board.set(now=board.get(abi.Board.now) + 10**9)
        return float(next(seconds))

    monkeypatch.setattr(machine_room, "thread_time", thread_time)
    board.counter.hooks_need_no_pc = debugged
    machine = LinuxMachine(stand_in(board))
    with pytest.raises(MachineDiedError, match="does not come to rest"):
        machine.run(5)
    assert most <= next(seconds) < most + 9


@pytest.mark.parametrize("late", [0, 7])
def test_interrupts_that_stay_off_count_by_processor_time(monkeypatch, late):
    seconds = itertools.count(0, 0.5)
    monkeypatch.setattr(machine_room, "thread_time", lambda: next(seconds))
    board = FakeBoard((abi.STOP_TURN, 0, 10))
    board.late = late
    machine = LinuxMachine(stand_in(board))
    found = {machine.step() for _ in range(2 * round(machine_room.MAX_LOCKED_OUT) + 4)}
    assert found == {abi.STOP_TURN, *[abi.STOP_LOCKUP] * bool(late)}


@pytest.mark.parametrize("block", [10, 100])
def test_each_turn_that_ends_is_told(block):
    told = []
    board = FakeBoard((abi.STOP_TURN, 0, block), (abi.STOP_PAUSE, 0, block))
    machine = LinuxMachine(stand_in(board), on_turn=lambda: told.append(1))
    machine.settle(0)
    assert told == [1]
