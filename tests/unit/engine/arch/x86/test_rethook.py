# SPDX-License-Identifier: GPL-2.0-or-later
"""Return probes: the trampoline, several on one function, instances, events.

This also tests kpfs.engine.arch.x86.ftrace, kpfs.engine.arch.x86.stub,
kpfs.engine.rethook and kpfs.engine.runtime.runtime.
"""

import struct

import pytest

from kpfs.base import abi
from kpfs.base.abi import EVENT_RECORD, EVENT_RETURN
from kpfs.engine.arch.x86.regs import FLAGS, SP
from kpfs.engine.kprobe import Kprobe
from kpfs.engine.kretprobe import (
    Kretprobe,
    register_kretprobe,
    unregister_kretprobe,
)
from kpfs.engine.runtime.records import KpEvent
from kpfs.engine.trace.ring.ring_buffer import RingBuffer
from tests.guest import run_to
from tests.unit.engine.arch.bare import NOP5

pytestmark = pytest.mark.guest

# lea rax,[rdi+1]; ret
LEAF = NOP5 + bytes.fromhex("488d4701 c3")
# recursive sum: test edi,edi; je 1f; push rdi; dec edi; call self; pop rdi;
#                add rax,rdi; ret; 1: xor eax,eax; ret
SUM = NOP5 + bytes.fromhex("85ff 740f 57 ffcf e8efffffff 5f 4801f8 c3 6690 31c0 c3")
# without the entry nop: probed by a breakpoint
BARE_LEAF = LEAF[5:]


def ret(b, name, handler=None, **fields):
    rp = Kretprobe(kp=Kprobe(symbol_name=name), handler=handler, **fields)
    register_kretprobe(b.state, rp)
    return rp


@pytest.mark.parametrize("code", [LEAF, BARE_LEAF])
def test_handler_sees_and_changes_the_result(box, code):
    b = box({"leaf": code})

    def handler(node, regs):
        b.seen.append((regs.ax, regs.ip, regs.sp, node.ret_addr, node.func, node.frame))
        whose.append((node.rp, node.task))
        regs.ax = 7

    whose: list[tuple[Kretprobe, int]] = []
    rp = ret(b, "leaf", handler)
    assert b.call("leaf", 41) == 7
    home = abi.TEXT_BASE
    at, sp = b.machine.addr("leaf"), b.machine.stack
    assert b.seen == [(42, home, sp + 8, home, at, sp)]
    assert whose == [(rp, b.machine.task)]
    assert b.machine.read_reg(SP) == sp + 8
    assert b.cpu_state() == (0, 0)


@pytest.mark.parametrize("guest", [False, True])
@pytest.mark.parametrize("code", [LEAF, BARE_LEAF])
def test_registers_and_flags_survive(box, code, guest):
    b = box({"leaf": code})
    at = b.machine.addr("leaf")
    values = [0x1000 + i for i in range(21)]
    values[FLAGS], values[SP], values[16] = 0x8D5 | 2, b.machine.stack, at
    home = b.machine.target
    alone, stack = b.machine.run_to(values, home)
    event = b.runtime.make(KpEvent)
    event.flags, event.size = EVENT_RECORD | EVENT_RETURN, 24
    fields = {"handler": lambda node, regs: b.seen.append(regs.ax)}
    if guest:
        RingBuffer(b.runtime)
        handler = b.runtime.symbols["kp_event_return"]
        fields = {"handler": handler, "guest_data": event.addr}
    ret(b, "leaf", **fields)
    for _ in range(3):
        assert b.machine.run_to(values, home) == (alone, stack)
    assert (event.nhit if guest else len(b.seen)) == 3
    assert b.machine.read_u64(b.machine.task + 32) == 0


def test_each_call_has_its_own_data(box):
    b = box({"sum": SUM})

    def entry(node, regs):
        struct.pack_into("<2Q", node.data, 0, regs.di, ~regs.di & 0xFFFF)

    def handler(node, regs):
        b.seen.append(struct.unpack("<2Q", node.data))

    ret(b, "sum", handler, entry_handler=entry, data_size=16)
    assert b.call("sum", 4) == 10
    assert b.seen == [(n, 0xFFFF - n) for n in range(5)]


@pytest.mark.parametrize("handler", ["python", "guest", "none"])
def test_unregistered_while_a_call_is_inside(box, handler):
    b = box({"leaf": LEAF})
    event = b.runtime.make(KpEvent)
    event.size = 24
    kind = {
        "python": {"handler": lambda node, regs: b.seen.append(1)},
        "guest": {
            "handler": b.runtime.symbols["kp_event_return"],
            "guest_data": event.addr,
        },
        "none": {},
    }[handler]
    rp = ret(b, "leaf", **kind)
    addr = rp.addr
    # stop inside the function
    b.machine.prepare(b.machine.addr("leaf"), {14: 1})
    run_to(b.machine.cpu_, b.machine.addr("leaf", 5))
    unregister_kretprobe(b.state, rp)
    b.machine.run_later()
    again = ret(b, "leaf")
    assert again.addr != addr
    b.machine.cpu_.run()
    assert b.machine.read_reg(10) == 2
    assert b.seen == []
    assert event.nhit == 0
    # now its memory is free
    third = ret(b, "leaf")
    assert third.addr == addr
    assert b.call("leaf", 3) == 4


@pytest.mark.logs("return handler of the probe")
def test_exception_in_a_handler(box):
    b = box({"leaf": LEAF})
    ret(b, "leaf", lambda node, regs: 1 // 0)
    assert b.call("leaf", 1) == 2


@pytest.mark.parametrize("code", [LEAF, BARE_LEAF])
@pytest.mark.parametrize("others", [0, 1])
def test_event_records(box, code, others):
    b = box({"leaf": code})
    rings = RingBuffer(b.runtime)
    event = b.runtime.make(KpEvent)
    event.flags, event.size, event.type = EVENT_RECORD | EVENT_RETURN, 24, 77
    handler = b.runtime.symbols["kp_event_return"]
    for _ in range(others + 1):
        ret(b, "leaf", handler, guest_data=event.addr)
    for _ in range(2):
        b.call("leaf", 1)
    at, home = b.machine.addr("leaf"), abi.TEXT_BASE
    trampoline = b.runtime.symbols["arch_rethook_trampoline"]
    records = [
        struct.unpack_from("<HBBi2Q", rings.cpus[0].pages, record[-2])
        for record in rings.cpus[0].records()
    ]
    inner = [(77, 0, 0, 42, at, trampoline)] * others
    assert records == [*inner, (77, 0, 0, 42, at, home)] * 2
    assert event.nhit == 2 * (others + 1)


def test_orphan_return_is_an_oops_and_a_message(box):
    b = box({"leaf": LEAF})
    trampoline = b.runtime.symbols["arch_rethook_trampoline"]
    b.machine.prepare(b.machine.addr("leaf"), {14: 1})
    b.machine.write_u64(b.machine.stack, trampoline)
    with pytest.raises(AssertionError, match="trap 6"):
        b.machine.cpu_.run()
    assert any("Return address not found" in line for line in b.machine.lines)
    assert b.runtime.cpus[0].orphan_returns == 1
