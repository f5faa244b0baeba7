# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.engine.blacklist: ranges, entry text, and parts split off a function."""

import pytest

from kpfs.base.ktypes import KAddr
from kpfs.engine.blacklist import within_kprobe_blacklist
from tests.fake import FakeMachine, new_state


@pytest.fixture
def machine():
    machine = FakeMachine()
    for name in ("a", "b", "c", "d", "b.cold", "c.part.0", "entry_64", "lone.cold"):
        machine.add_function(name)
    for name in ("d", "b"):  # the kernel's list is not sorted
        machine.add_blacklist(machine.kallsyms.lookup_name(name)[0])
    return machine


def test_ranges(machine):
    st = new_state(machine)
    symbols = {s.name: s for s in machine.kallsyms}
    for name, inside in {"a": False, "b": True, "c": False, "d": True}.items():
        symbol = symbols[name]
        for addr in (symbol.addr, symbol.addr + symbol.size - 1):
            assert within_kprobe_blacklist(st, addr) is inside


def test_the_architecture_has_a_say(machine):
    st = new_state(machine)
    assert within_kprobe_blacklist(
        st, machine.kallsyms.lookup_name("entry_64")[0].addr + 3
    )


@pytest.mark.parametrize(
    ("name", "inside"), [("b.cold", True), ("c.part.0", False), ("lone.cold", False)]
)
def test_split_off_parts_are_judged_by_the_whole(machine, name, inside):
    st = new_state(machine)
    addr = machine.kallsyms.lookup_name(name)[0].addr
    assert within_kprobe_blacklist(st, addr + 2) is inside


def test_ranges_that_overlap(machine):
    symbols = {s.name: s for s in machine.kallsyms}
    machine.add_blacklist(symbols["d"])  # listed twice, as asm_exc_* are
    whole = machine.add_symbol("area", symbols["a"].addr, 70, "T")
    machine.add_blacklist(whole)
    st = new_state(machine)
    inside = [
        a
        for a in range(symbols["a"].addr, symbols["b.cold"].addr)
        if within_kprobe_blacklist(st, KAddr(a))
    ]
    assert inside == [
        *range(symbols["a"].addr, symbols["a"].addr + 70),
        *range(symbols["d"].addr, symbols["d"].addr + symbols["d"].size),
    ]
    assert len(st.kprobe_blacklist) == 4
