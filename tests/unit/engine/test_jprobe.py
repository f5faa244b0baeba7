# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.engine.jprobe: registering jprobes, and Python functions as their entries."""

import pytest

from kpfs.engine.jprobe import Jprobe, register_jprobe
from kpfs.engine.kprobe import Kprobe, KprobeFlag, kprobe_disabled, kprobe_optimized
from kpfs.engine.register import (
    disable_kprobe,
    enable_kprobe,
    register_kprobe,
    show_entries,
    unregister_kprobe,
    unregister_kprobes,
)
from tests.fake import ENTRY_NOP, PUSH, FakeMachine
from tests.there import call_pre, code


@pytest.fixture
def machine():
    machine = FakeMachine()
    for name in ("f", "g", "entry"):
        machine.add_function(name, ENTRY_NOP + PUSH * 12)
    machine.add_function("bare", PUSH * 12)
    return machine


def jump(st, name="f", offset=0, entry="entry"):
    addr = st.machine.kallsyms.lookup_name(entry)[0].addr
    return Jprobe(kp=Kprobe(symbol_name=name, offset=offset), entry=addr)


def kinds(st):
    return [p.kind for p, _ in show_entries(st)]


def test_guest_code_as_entry(st):
    jp = jump(st)
    register_jprobe(st, jp)
    assert kinds(st) == ["j"]
    assert jp.kp.pre_handler == st.arch.jprobes.pre_handler
    assert jp.kp.break_handler == st.arch.jprobes.break_handler
    assert jp.kp.data == jp.entry
    unregister_kprobe(st, jp.kp)
    assert kinds(st) == []


@pytest.mark.parametrize("off", [1, 0x100000])
def test_the_entry_must_be_a_function(st, off):
    jp = jump(st)
    jp.entry += off
    assert code(register_jprobe, st, jp) == "EINVAL"
    jp.entry = None
    assert code(register_jprobe, st, jp) == "EINVAL"
    assert kinds(st) == []


def test_refusals_of_register_kprobe(st):
    assert code(register_jprobe, st, jump(st, "nothing")) == "ENOENT"
    both = jump(st)
    both.kp.addr = st.machine.kallsyms.lookup_name("f")[0].addr
    assert code(register_jprobe, st, both) == "EINVAL"
    assert code(register_jprobe, st, jump(st, offset=5)) == "EINVAL"


def test_python_entry_gets_as_many_arguments_as_it_takes(st):
    got: list[tuple[int, ...]] = []

    def none():
        got.append(())

    def two(a, b):
        got.append((a, b))

    regs = [10, 11, 12, 13]
    for entry in (none, two, lambda a, b, c: got.append((a, b, c))):
        jp = Jprobe(kp=Kprobe(symbol_name="f"), entry=entry)
        register_jprobe(st, jp)
        assert call_pre(jp.kp, regs) == 0
        unregister_kprobe(st, jp.kp)
    assert got == [(), (10, 11), (10, 11, 12)]
    assert regs == [10, 11, 12, 13]


def test_one_at_an_address(st):
    first, second = jump(st), jump(st)
    register_jprobe(st, first)
    assert code(register_jprobe, st, second) == "EEXIST"
    assert kinds(st) == ["j"]
    other = Kprobe(symbol_name="f", pre_handler=lambda p, regs: 0)
    register_kprobe(st, other)
    second.kp.addr = 0
    assert code(register_jprobe, st, second) == "EEXIST"
    elsewhere = jump(st, "g")
    register_jprobe(st, elsewhere)
    unregister_kprobe(st, first.kp)
    second.kp.addr = 0
    register_jprobe(st, second)
    assert sorted(kinds(st)) == ["j", "j", "k"]
    unregister_kprobe(st, other)
    unregister_kprobes(st, [second.kp, elsewhere.kp])
    assert not st.kprobe_table
    assert not st.arch.handlers


def test_a_break_handler_counts_as_one(st):
    register_kprobe(st, Kprobe(symbol_name="f", break_handler=lambda p, regs: 0))
    assert code(register_jprobe, st, jump(st)) == "EEXIST"


def test_it_stands_last(st):
    """Its entry function ends the handling, so the others come first."""
    jp = jump(st)
    register_jprobe(st, jp)
    for _ in range(2):
        register_kprobe(st, Kprobe(symbol_name="f", pre_handler=lambda p, regs: 0))
    assert kinds(st) == ["k", "k", "j"]
    unregister_kprobe(st, jp.kp)
    jp.kp.addr = 0
    register_jprobe(st, jp)
    assert kinds(st) == ["k", "k", "j"]


def test_it_is_never_a_jump(st, machine):
    jp = jump(st, "bare")
    register_jprobe(st, jp)
    machine.settle()
    (entry,) = st.table_entries()
    assert not kprobe_optimized(entry)
    unregister_kprobe(st, jp.kp)
    plain = Kprobe(symbol_name="bare", pre_handler=lambda p, regs: 0)
    register_kprobe(st, plain)
    machine.settle()
    (entry,) = st.table_entries()
    assert kprobe_optimized(entry)
    jp.kp.addr = 0
    register_jprobe(st, jp)
    assert not kprobe_optimized(entry)
    unregister_kprobe(st, jp.kp)
    machine.settle()
    assert kprobe_optimized(entry)


def test_switching(st):
    jp = jump(st)
    jp.kp.flags = KprobeFlag.DISABLED
    register_jprobe(st, jp)
    assert kprobe_disabled(jp.kp)
    enable_kprobe(st, jp.kp)
    assert not kprobe_disabled(jp.kp)
    disable_kprobe(st, jp.kp)
    assert kprobe_disabled(jp.kp)
    unregister_kprobe(st, jp.kp)
    assert code(enable_kprobe, st, jp.kp) == "EINVAL"
