# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.engine.state: the table, and the order in which kprobes/list shows it."""

import random

from kpfs.engine.kprobe import Kprobe
from kpfs.engine.register import (
    disable_kprobe,
    enable_kprobe,
    register_kprobe,
    show_entries,
    unregister_kprobe,
)
from kpfs.engine.state import get_kprobe, hash_ptr, is_kprobe_insn_slot
from tests.fake import ENTRY_NOP, NOP, FakeMachine, new_state, slot_of
from tests.there import there


def test_hash_is_that_of_the_kernel():
    assert hash_ptr(1) == 0b011000
    assert hash_ptr(0xFFFFFFFF81000000) == 1
    assert {hash_ptr(0xFFFFFFFF81000000 + i) for i in range(1000)} == set(range(64))


def registered(st):
    return [p for p, _ in show_entries(st)]


def test_list_goes_by_bucket_then_newest_first():
    machine = FakeMachine()
    names = [f"f{i}" for i in range(200)]
    for name in names:
        machine.add_function(name)
    st = new_state(machine)
    random.Random(1).shuffle(names)
    probes = [Kprobe(symbol_name=name) for name in names]
    for p in probes:
        register_kprobe(st, p)
    age = {p: i for i, p in enumerate(probes)}
    assert registered(st) == sorted(probes, key=lambda p: (hash_ptr(p.addr), -age[p]))
    for p in probes[::3]:
        disable_kprobe(st, p)
        enable_kprobe(st, p)
    assert registered(st) == sorted(probes, key=lambda p: (hash_ptr(p.addr), -age[p]))


def test_aggregate_keeps_the_place_of_the_probe_it_replaced():
    machine = FakeMachine()
    addr = machine.add_function("f", ENTRY_NOP + NOP * 3000)
    st = new_state(machine)
    same = [o for o in range(5, 3000) if hash_ptr(addr + o) == hash_ptr(addr + 5)]
    a, b, c = (Kprobe(symbol_name="f", offset=o) for o in same[:3])
    for p in (a, b, c):
        register_kprobe(st, p)
    second = Kprobe(symbol_name="f", offset=same[1])
    register_kprobe(st, second)
    assert registered(st) == [c, second, b, a]
    unregister_kprobe(st, second)
    assert registered(st) == [c, b, a]


def test_get_kprobe_gives_the_entry():
    machine = FakeMachine()
    addr = machine.add_function("f")
    st = new_state(machine)
    p, q = Kprobe(symbol_name="f"), Kprobe(symbol_name="f")
    register_kprobe(st, p)
    assert get_kprobe(st, addr) is p
    register_kprobe(st, q)
    assert there(get_kprobe(st, addr)).list == [q, p]
    assert get_kprobe(st, addr + 1) is None


def test_slots_are_known_as_such():
    machine = FakeMachine()
    machine.add_function("f")
    st = new_state(machine)
    p = Kprobe(symbol_name="f", offset=6)
    register_kprobe(st, p)
    assert is_kprobe_insn_slot(st, slot_of(p))
    assert not is_kprobe_insn_slot(st, p.addr)


def test_boot_says_that_jumps_are_made():
    def said(**config):
        machine = FakeMachine()
        new_state(machine, **config)
        return machine.log.lines

    assert said() == [
        (
            6,
            "kprobes: kprobe jump-optimization is enabled. "
            "All kprobes are optimized if possible.",
        )
    ]
    assert said(optprobes=False) == []


def test_two_kernels_in_one_process():
    first, second = FakeMachine(), FakeMachine()
    for machine in (first, second):
        machine.add_function("f")
    st1, st2 = new_state(first), new_state(second)
    p = Kprobe(symbol_name="f", offset=6)
    register_kprobe(st1, p)
    assert registered(st1) == [p]
    assert registered(st2) == []
    assert first.patched()
    assert not second.patched()
