# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.guest.running.klog: the printk ring, wrapping and dropping the oldest."""

import random

import pytest

from kpfs.base import abi
from kpfs.guest.emu.memory import KERNEL_DATA, Memory
from kpfs.guest.running.klog import KernelLog


class LogAt(KernelLog):
    """A log whose time is set by hand."""

    def __init__(self, memory, addr):
        self.time, self.memory, self.addr = 0, memory, addr
        super().__init__(memory, addr, lambda: self.time)


@pytest.fixture
def log():
    memory = Memory()
    addr = memory.area.alloc(4096, KERNEL_DATA)
    memory.write(addr, abi.KpfsLog.STRUCT.pack(addr + 1024, 256, 0, 0, 0, 0))
    return LogAt(memory, addr)


def append(log, level, text, now):
    log.time = now
    log.printk(level, text)


def test_records_in_order(log):
    append(log, 6, "one\ntwo\n", 1000)
    append(log, 4, "", 2000)
    assert [tuple(r) for r in log.records()] == [
        (0, 1000, 0, 6, b"one"),
        (1, 1000, 0, 6, b"two"),
        (2, 2000, 0, 4, b""),
    ]
    assert [r.seq for r in log.records(since=2)] == [2]


@pytest.mark.parametrize("sizes", [(1, 2, 3), (40, 7, 99), (180, 1, 1), (8, 16, 200)])
def test_the_newest_survive_any_number_of_wraps(log, sizes):
    expected = []
    for number in range(200):
        text = chr(65 + number % 26) * sizes[number % len(sizes)]
        append(log, number % 8, text, number)
        expected.append((number, number, 0, number % 8, text.encode()))
        kept = [tuple(r) for r in log.records()]
        assert kept, "the newest is always there"
        assert kept == expected[-len(kept) :]
    assert sum(24 + len(r.text) for r in log.records()) <= 256


def test_looks_from_anywhere_and_back_in_time(log):
    """A look goes on where the last one began, unless that is another record now."""
    rng = random.Random(1)
    written, saved = 0, None
    for _ in range(500):
        for _ in range(rng.randrange(1, 6)):
            append(log, 6, "x" * rng.randrange(40), rng.randrange(1000))
            written += 1
        since = max(written - rng.randrange(8), 0)
        fresh = KernelLog(log.memory, log.addr, lambda: 0).records(since)
        assert log.records(since) == fresh
        if saved and rng.random() < 0.3:  # as a snapshot is gone back to
            written = saved[0]
            log.memory.write(log.addr, saved[1])
        elif rng.random() < 0.3:
            saved = written, log.memory.read(log.addr, 4096)


@pytest.mark.parametrize("word", range(2, 6))
def test_overwritten_log(word):
    """An empty log that takes new records, and no endless walk."""
    memory = Memory()
    addr = memory.area.alloc(4096, KERNEL_DATA)
    words = [addr + 1024, 256, 0, 0, 0, 0]
    words[word] = 1 << 56
    memory.write(addr, abi.KpfsLog.STRUCT.pack(*words))
    log = KernelLog(memory, addr, lambda: 0)
    assert log.records() == []
    log.printk(0, "Kernel panic")
    assert [r.text for r in log.records()] == [b"Kernel panic"]
    memory.write(addr + 1024, b"\xff" * 256)
    log.records()
    log.printk(0, "Kernel panic" * 30)
