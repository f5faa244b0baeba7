# SPDX-License-Identifier: GPL-2.0-or-later
"""Many hits, many loads: nothing grows."""

import os

from kpfs.guest.emu import cpu
from tests.modbox import build

NAMES = ("pres", "posts", "faults", "entries", "returns", "jumps")
BUSY, OUTER = 150_000, 20_000
PAGE = 4096


def resident():
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_a_million_hits(box):
    box.insmod(build("all_kinds"))
    guest = box.kernel.guest

    def hit(busy, outer):
        assert box.call("run_busy", busy) == busy * (busy + 1) // 2
        assert box.call("run_outer", outer) == outer * outer
        return [guest.read_u64(box.address(name)) for name in NAMES]

    hit(1000, 1000)
    heap = list(guest.memory.area._free)
    before = resident()
    counts = hit(BUSY, OUTER)
    busy, outer = BUSY + 1000, OUTER + 1000
    assert counts == [3 * busy, 2 * busy, outer, outer, busy + outer, busy]
    assert sum(counts) > 1_000_000
    assert resident() - before < 1 << 20
    assert guest.memory.area._free == heap
    box.rmmod("all_kinds")
    assert box.list() == []


def test_a_run_may_end_before_any_block(box, monkeypatch):
    """A run may do so behind a fault; the guest notices no end of a turn."""
    box.insmod(build("all_kinds"))
    machine = box.kernel.guest.sched._cpu
    machine.may_end = lambda _ip: False
    looks = 0
    for blocks in range(2, 400):
        monkeypatch.setattr(cpu, "RUN_BLOCKS", blocks)
        before = machine.blocks
        assert box.call("run_outer", 1) == 1, blocks
        looks += machine.blocks - before > blocks
    assert looks > 200 or not machine.counts


def test_a_hundred_loads(box):
    path = build("all_kinds")

    def load():
        box.insmod(path)
        box.call("run_busy", 10)
        box.rmmod("all_kinds")

    for _ in range(10):
        load()
    free, before = list(box.kernel.guest.memory.area._free), resident()
    for _ in range(100):
        load()
    assert box.kernel.guest.memory.area._free == free
    assert resident() - before < 1 << 20
