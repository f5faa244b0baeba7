# SPDX-License-Identifier: GPL-2.0-or-later
"""slots: slots are distinct, near, and used again only when nobody is inside."""

from itertools import pairwise

from kpfs.engine.slots import CHUNK_SIZE, KprobeInsnCache
from tests.fake import FakeMachine


def test_slots_do_not_overlap():
    cache = KprobeInsnCache(FakeMachine(), 48, "kprobe_insn_page")
    slots = sorted(cache.get_insn_slot() for _ in range(3000))
    assert all(b - a >= 48 for a, b in pairwise(slots))
    assert all(cache.is_insn_slot_addr(s) for s in slots)
    assert all(s + 48 <= max(cache.pages) + CHUNK_SIZE for s in slots)
    assert cache.nr_used == 3000


def test_memory_outside_is_not_a_slot():
    cache = KprobeInsnCache(FakeMachine(), 32, "kprobe_insn_page")
    slot = cache.get_insn_slot()
    assert not cache.is_insn_slot_addr(slot - 1)
    assert not cache.is_insn_slot_addr(slot + CHUNK_SIZE)


def test_dirty_slot_waits_for_quiescence():
    machine = FakeMachine()
    cache = KprobeInsnCache(machine, CHUNK_SIZE, "kprobe_insn_page")
    slot = cache.get_insn_slot()
    cache.free_insn_slot(slot)
    assert cache.nr_used == 0
    assert cache.get_insn_slot() != slot
    machine.quiescence.quiesce()
    assert cache.get_insn_slot() == slot


def test_each_dirty_slot_waits_for_itself():
    machine = FakeMachine()
    cache = KprobeInsnCache(machine, CHUNK_SIZE, "kprobe_insn_page")
    a, b = cache.get_insn_slot(), cache.get_insn_slot()
    cache.free_insn_slot(a)
    machine.quiescence.quiesce()
    cache.free_insn_slot(b)
    assert cache.get_insn_slot() == a
    assert cache.get_insn_slot() not in (a, b)
    machine.quiescence.quiesce()
    assert cache.get_insn_slot() == b


def test_clean_slot_is_used_again_at_once():
    cache = KprobeInsnCache(FakeMachine(), CHUNK_SIZE, "kprobe_insn_page")
    slot = cache.get_insn_slot()
    cache.free_insn_slot(slot, dirty=False)
    assert cache.get_insn_slot() == slot


def test_code_of_slots_is_dropped_before_they_are_used_again(monkeypatch):
    machine = FakeMachine()
    dropped = []
    monkeypatch.setattr(machine.text_writer, "drop", lambda *at: dropped.append(at))
    cache = KprobeInsnCache(machine, 16, "kprobe_insn_page")
    slots = [cache.get_insn_slot() for _ in range(5)]
    assert dropped == [(slots[0], CHUNK_SIZE)]  # memory that was somebody else's
    dropped.clear()
    for i in (3, 0, 1, 4):
        cache.free_insn_slot(slots[i], dirty=False)
    assert cache.get_insn_slot() == slots[4]
    assert dropped == [(slots[0], 32), (slots[3], 32)]
    assert cache.get_insn_slot() == slots[1]
    assert len(dropped) == 2
