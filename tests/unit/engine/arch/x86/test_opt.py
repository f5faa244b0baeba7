# SPDX-License-Identifier: GPL-2.0-or-later
"""Jumps: detour buffers, what a hit sees, turning them on and off.

This also tests kpfs.engine.arch.x86.core.
"""

import pytest

from kpfs.base.abi import EVENT_RECORD
from kpfs.engine.arch.x86.regs import FLAGS, IP, ORIG_AX, SP
from kpfs.engine.kprobe import Kprobe, KprobeFlag, kprobe_optimized
from kpfs.engine.kretprobe import Kretprobe, register_kretprobe
from kpfs.engine.optimizer import set_kprobes_optimization
from kpfs.engine.register import (
    disable_kprobe,
    enable_kprobe,
    register_kprobe,
    unregister_kprobe,
)
from kpfs.engine.runtime.records import KpEvent
from kpfs.engine.trace.ring.ring_buffer import RingBuffer
from tests.guest import hook_code
from tests.unit.engine.arch.bare import NOP5

pytestmark = pytest.mark.guest

# 5: push rbp; 6: lea rax,[rip+0x10]; 13: add rax,rdi; 16: pop rbp; 17: ret
BODY = bytes.fromhex("55 488d0510000000 4801f8 5d c3")
F = NOP5 + BODY


def optimized(b, **fields):
    p = b.probe("f", 5, **fields)
    assert b.text("f", 6)[5] == 0xCC
    b.machine.run_later()
    assert b.text("f", 6)[5] == 0xE9
    return p


def expected(b, di):
    return (b.machine.addr("f", 13) + 0x10 + di) & 0xFFFFFFFFFFFFFFFF


def test_python_handler_through_the_jump(box):
    b = box({"f": F})
    seen = []
    p = optimized(
        b,
        pre_handler=lambda p, regs: seen.append(
            (regs.ip, regs.di, regs.sp, regs.orig_ax, regs.cs, regs.ss)
        ),
    )
    assert b.call("f", 3) == expected(b, 3)
    ones = (1 << 64) - 1
    assert seen == [(p.addr + 1, 3, b.machine.stack, ones, 0x10, 0x18)]
    assert b.cpu_state() == (0, 0)


def test_registers_flags_and_stack_are_those_without_a_probe(box):
    b = box({"f": F, "end": NOP5})
    values = [0x100 + i for i in range(21)]
    values[FLAGS], values[SP] = 0x8D5 | 2, b.machine.stack
    values[IP] = b.machine.addr("f", 5)
    to = b.machine.addr("f", 13)
    alone = b.machine.run_to(values, to)
    p = optimized(b, pre_handler=b.note("hit"))
    assert b.machine.run_to(values, to) == alone
    event = b.runtime.make(KpEvent)
    event.flags, event.size = EVENT_RECORD, 16
    RingBuffer(b.runtime)
    unregister_kprobe(b.state, p)
    b.machine.run_later()
    assert b.text("f", len(F)) == F
    handler = b.runtime.symbols["kp_event_handler"]
    optimized(b, pre_handler=handler, data=event.addr)
    for _ in range(3):
        assert b.machine.run_to(values, to) == alone
    assert event.nhit == 3
    assert alone[0][ORIG_AX] == (1 << 64) - 1


def test_changed_ip_and_result_are_ignored_other_registers_not(box):
    b = box({"f": F})

    def handler(p, regs):
        regs.ip = 0x1234
        regs.di = 10
        return 1

    b.probe("f", 5, pre_handler=b.note("older"))
    optimized(b, pre_handler=handler)
    assert b.call("f", 3) == expected(b, 10)
    assert [what for what, _ in b.seen] == ["older"]


def test_changed_ip_and_result_of_guest_code_are_ignored(box):
    # mov qword [rsi+112],10 (di); mov qword [rsi+128],0 (ip); mov eax,1; ret
    code = "48c746700a000000 48c7868000000000000000 b801000000 c3"
    b = box({"f": F, "handler": bytes.fromhex(code)})
    b.probe("f", 5, pre_handler=b.note("older"))
    optimized(b, pre_handler=b.machine.addr("handler"))
    assert b.call("f", 3) == expected(b, 10)
    assert [what for what, _ in b.seen] == ["older"]
    assert b.cpu_state() == (0, 0)


def test_hit_in_a_handler_it_is_missed(box):
    """The handlers of a jump are not called within another probe's."""
    # push rdi; mov edi,3; call f, two functions before; pop rdi; xor eax,eax; ret
    nested = bytes.fromhex("57 bf03000000 e8f5fdffff 5f 31c0 c3")
    b = box({"f": F, "caller": F, "nested": nested})
    p = optimized(b, pre_handler=b.note("inner"))
    b.probe("caller", 0, pre_handler=b.machine.addr("nested"))
    b.call("caller", 3)
    assert b.seen == []
    assert b.arch.nmissed(p) == 1
    assert b.call("f", 3) == expected(b, 3)
    assert [what for what, _ in b.seen] == ["inner"]
    assert b.cpu_state() == (0, 0)


def probe_by(b, how):
    """Probe the entry of f by handlers of a kind. Each kind has code of its own."""
    if how == "an event":
        RingBuffer(b.runtime)
        event = b.runtime.make(KpEvent)
        event.flags, event.size = EVENT_RECORD, 16
        handler = b.runtime.symbols["kp_event_handler"]
        return b.probe("f", 0, pre_handler=handler, data=event.addr)
    if "return" in how:
        rp = Kretprobe(kp=Kprobe(symbol_name="f"), handler=b.note("returned"))
        register_kretprobe(b.state, rp)
        if "handler" not in how:
            return rp.kp
    pre = b.note("hit") if how == "Python" else b.machine.addr("handler")
    return b.probe("f", 0, pre_handler=pre)


# nop of 12 bytes, behind whose copy there is no room for a jump; lea rax,[rdi+1]; ret
LONG = bytes.fromhex("6666662e0f1f840000000000 488d4701 c3")


@pytest.mark.parametrize("code", [BODY, LONG], ids=["boosted", "stepped"])
@pytest.mark.parametrize(
    "how", ["Python", "a handler", "an event", "a return", "a return and a handler"]
)
def test_where_a_jump_is_to_be_a_hit_goes_on_behind_its_bytes(box, how, code):
    b = box({"f": code, "handler": bytes.fromhex("31c0 c3")})
    result = b.call("f", 3)
    within = []
    last = b.machine.addr("f", 4)
    hook_code(b.machine.cpu_, last - 3, last, lambda *at: within.append(at[1]))
    p = probe_by(b, how)
    entry = b.state.kprobe_table[p.addr]

    def hit(byte):
        assert b.text("f", 1)[0] == byte
        hits = b.arch.hits(entry)
        assert b.call("f", 3) == result
        assert b.arch.hits(entry) == hits + 1
        assert b.cpu_state() == (0, 0)
        passed = bool(within)
        within.clear()
        return passed

    goes_back = code == BODY  # into the bytes, as its first instruction is of one
    assert kprobe_optimized(entry)
    assert not hit(0xCC)
    set_kprobes_optimization(b.state, False)
    assert hit(0xCC) == goes_back
    set_kprobes_optimization(b.state, True)
    assert not hit(0xCC)
    b.machine.run_later()
    assert not hit(0xE9)
    # what is enabled again before its jump is undone is a breakpoint from then on
    for one in [*entry.list]:
        disable_kprobe(b.state, one)
    for one in [*entry.list]:
        enable_kprobe(b.state, one)
    assert kprobe_optimized(entry)
    b.machine.run_later()
    assert not hit(0xCC)
    assert b.text("f", 5)[1:] != code[1:5]
    set_kprobes_optimization(b.state, False)
    assert b.text("f", 5)[1:] == code[1:5]
    assert hit(0xCC) == goes_back


def test_disabling_brings_the_bytes_back(box):
    b = box({"f": F})
    p = optimized(b, pre_handler=b.note("hit"))
    disable_kprobe(b.state, p)
    b.machine.run_later()
    assert b.text("f", len(F)) == F
    assert b.call("f", 3) == expected(b, 3)
    assert b.seen == []


def test_second_probe_joins_and_a_post_handler_ends_it(box):
    b = box({"f": F})
    optimized(b, pre_handler=b.note("a"))
    b.probe("f", 5, pre_handler=b.note("b"))
    b.call("f", 1)
    assert [what for what, _ in b.seen] == ["b", "a"]
    assert b.text("f", 6)[5] == 0xE9
    q = b.probe("f", 5, post_handler=b.note("post"))
    assert b.text("f", 6)[5] == 0xCC
    assert b.call("f", 3) == expected(b, 3)
    assert [what for what, _ in b.seen][2:] == ["b", "a", "post"]
    unregister_kprobe(b.state, q)
    b.machine.run_later()
    assert b.call("f", 3) == expected(b, 3)


def test_one_handler_or_more_changes_the_way_in(box):
    b = box({"f": F})
    RingBuffer(b.runtime)
    event = b.runtime.make(KpEvent)
    event.flags, event.size = EVENT_RECORD, 16
    handler = b.runtime.symbols["kp_event_handler"]
    p = optimized(b, pre_handler=handler, data=event.addr)
    buffer = b.state.kprobe_table[p.addr].optinsn.buffer
    short = b.machine.read(buffer, 12)
    b.call("f", 1)
    q = b.probe("f", 5, pre_handler=b.note("b"))
    assert b.machine.read(buffer, 12) != short
    b.call("f", 1)
    unregister_kprobe(b.state, q)
    assert b.machine.read(buffer, 12) == short
    b.call("f", 1)
    assert event.nhit == 3
    assert len(b.seen) == 1


def test_neighbour_inside_the_region(box):
    b = box({"f": F})
    optimized(b, pre_handler=b.note("a"))
    b.probe("f", 6, pre_handler=b.note("b"))
    assert b.text("f", 7)[5:] == b"\xcc\xcc"
    assert b.call("f", 3) == expected(b, 3)
    assert [what for what, _ in b.seen] == ["a", "b"]


def test_disabled_neighbour_inside_the_region(box):
    b = box({"f": F})
    p = optimized(b, pre_handler=b.note("a"))
    q = Kprobe(symbol_name="f", offset=6, pre_handler=b.note("b"))
    q.flags = KprobeFlag.DISABLED
    register_kprobe(b.state, q)
    b.machine.run_later()
    assert b.text("f", 6)[5:] == b"\xe9"  # it is in nobody's way
    enable_kprobe(b.state, q)
    assert b.text("f", 7)[5:] == b"\xcc\xcc"
    assert b.call("f", 3) == expected(b, 3)
    assert [what for what, _ in b.seen] == ["a", "b"]
    disable_kprobe(b.state, q)
    b.machine.run_later()
    # as in 6.1: it was still in the way when the other one was looked at
    assert b.text("f", 7)[5:] == b"\xcc" + F[6:7]
    disable_kprobe(b.state, p)
    enable_kprobe(b.state, p)
    b.machine.run_later()
    assert b.text("f", 6)[5:] == b"\xe9"
    assert b.call("f", 3) == expected(b, 3)
    assert [what for what, _ in b.seen] == ["a", "b", "a"]


def test_return_probe_on_a_function_without_nop(box):
    b = box({"f": BODY})
    rp = Kretprobe(
        kp=Kprobe(symbol_name="f"), handler=lambda node, regs: b.seen.append(regs.ax)
    )
    register_kretprobe(b.state, rp)
    b.machine.run_later()
    assert b.text("f", 1) == b"\xe9"
    result = b.call("f", 3)
    assert b.seen == [result]


def test_buffers_are_given_back(box):
    b = box({"f": F})
    p = optimized(b, pre_handler=b.note("a"))
    unregister_kprobe(b.state, p)
    b.machine.run_later()
    assert b.arch.opt.optinsn_slots.nr_used == 0
    assert b.arch.insn_slots.nr_used == 0
    assert b.text("f", len(F)) == F


def test_a_successor_keeps_its_breakpoint_when_the_old_jump_is_freed(box):
    b = box({"f": F})
    p = optimized(b, pre_handler=b.note("a"))
    unregister_kprobe(b.state, p)
    q = b.probe("f", 5, post_handler=b.note("b"))
    b.machine.run_later()  # the old one is freed
    assert b.call("f", 3) == expected(b, 3)
    assert [what for what, _ in b.seen] == ["b"]
    unregister_kprobe(b.state, q)
    b.machine.run_later()
    assert b.text("f", len(F)) == F
