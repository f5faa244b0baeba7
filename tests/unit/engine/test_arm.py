# SPDX-License-Identifier: GPL-2.0-or-later
"""arm: the switch for all probes.  Recorded cases show what it does to tags."""

import sys

import pytest

from kpfs.base.errors import KernelError
from kpfs.engine.arm import arm_all_kprobes, disarm_all_kprobes
from kpfs.engine.kprobe import NO_FLAGS, Kprobe, KprobeFlag, kprobe_disabled
from kpfs.engine.register import (
    disable_kprobe,
    enable_kprobe,
    register_kprobe,
    show_entries,
    unregister_kprobe,
)
from kpfs.engine.state import State
from tests.fake import ENTRY_NOP, NOP, FakeArch, FakeMachine, FakeText, new_state


@pytest.fixture
def machine():
    machine = FakeMachine()
    machine.add_function("f")
    machine.add_function("g")
    return machine


@pytest.fixture
def st(machine):
    st = new_state(machine)
    machine.log.lines.clear()
    return st


def add(st, *points, flags=NO_FLAGS):
    ps = [Kprobe(symbol_name=n, offset=o, flags=flags) for n, o in points]
    for p in ps:
        register_kprobe(st, p)
    return ps


def test_text_is_restored_and_armed_again(st, machine):
    ps = add(st, ("f", 0), ("f", 6), ("f", 6), ("g", 7))
    armed = machine.patched()
    assert armed
    disarm_all_kprobes(st)
    assert machine.patched() == []
    assert not any(kprobe_disabled(p) for p in ps)
    arm_all_kprobes(st)
    assert machine.patched() == armed


def test_only_a_change_is_logged(st, machine):
    arm_all_kprobes(st)
    assert machine.log.lines == []
    disarm_all_kprobes(st)
    disarm_all_kprobes(st)
    arm_all_kprobes(st)
    arm_all_kprobes(st)
    assert machine.log.lines == [
        (6, "kprobes: Kprobes globally disabled"),
        (6, "kprobes: Kprobes globally enabled"),
    ]


def test_failures_are_counted_and_the_rest_done(st, machine):
    ftrace, plain = add(st, ("f", 0), ("g", 7))
    disarm_all_kprobes(st)
    st.arch.fail["arch_arm_kprobe"] = 12
    with pytest.raises(KernelError, match="ENOMEM"):
        arm_all_kprobes(st)
    assert machine.patched()[0] == ftrace.addr
    assert plain.addr not in machine.patched()
    assert machine.log.lines[-1] == (
        4,
        "kprobes: Kprobes globally enabled, but failed to enable 1 out of 2 probes. "
        "Please check which kprobes are kept disabled via debugfs.",
    )
    assert st.arch.text_poke.depth == 0


def test_nothing_is_armed_meanwhile(st, machine):
    disarm_all_kprobes(st)
    (p,) = add(st, ("f", 6))
    (q,) = add(st, ("g", 6), flags=KprobeFlag.DISABLED)
    enable_kprobe(st, q)
    disable_kprobe(st, p)
    enable_kprobe(st, p)
    assert machine.patched() == []
    unregister_kprobe(st, q)
    assert machine.patched() == []


def test_enabled_meanwhile_beside_one_that_was_enabled(st, machine):
    (e1,) = add(st, ("f", 6))
    (e2,) = add(st, ("f", 6), flags=KprobeFlag.DISABLED)
    disarm_all_kprobes(st)
    enable_kprobe(st, e2)
    arm_all_kprobes(st)
    assert machine.patched() == [e1.addr]
    assert st.arch.sites[e1.addr] == [(e2, False), (e1, False)]


class PlainArch(FakeArch):
    """An architecture whose original text is all nops."""

    def original(self, addr: int, size: int) -> bytes:
        return NOP * size


class PlainText(FakeText):
    """Text without ftrace sites."""

    def ftrace_location(self, start: int, end: int) -> None:
        return None


def calls_for(count: int) -> int:
    """Calls that registering, disarming, arming and listing so many probes takes."""
    machine = FakeMachine()
    machine.add_function("f", ENTRY_NOP + NOP * count)
    # no look-up of text, so that the core alone is measured
    machine.text = PlainText(machine.kallsyms)
    st = State(machine, PlainArch(machine))
    calls = 0

    def profile(_frame, event, _function):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        for o in range(5, count + 5):
            register_kprobe(st, Kprobe(symbol_name="f", offset=o))
        disarm_all_kprobes(st)
        arm_all_kprobes(st)
        assert len(list(show_entries(st))) == count
    finally:
        sys.setprofile(None)
    return calls


def test_twice_the_probes_are_twice_the_work():
    assert calls_for(800) < 2.2 * calls_for(400)
