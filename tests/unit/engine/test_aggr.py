# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.engine.aggr: several probes on one address."""

import pytest

from kpfs.engine.aggr import kprobe_nmissed
from kpfs.engine.kprobe import Kprobe, KprobeFlag, kprobe_disabled
from kpfs.engine.register import (
    disable_kprobe,
    enable_kprobe,
    register_kprobe,
    unregister_kprobe,
)
from kpfs.engine.state import get_kprobe
from tests.fake import FakeMachine
from tests.there import call_post, call_pre, there


@pytest.fixture
def machine():
    machine = FakeMachine()
    machine.add_function("f")
    return machine


def probes(called, n, **kw):
    def pre(p, regs):
        called.append(("pre", order[p]))
        return kw.get("ret", {}).get(order[p])

    def post(p, regs, flags):
        called.append(("post", order[p]))

    order = {}
    for i in range(n):
        p = Kprobe(symbol_name="f", offset=6, pre_handler=pre)
        if i in kw.get("post", ()):
            p.post_handler = post
        order[p] = i
    return list(order)


def registered(st, called, n, **kw):
    ps = probes(called, n, **kw)
    for p in ps:
        register_kprobe(st, p)
    return ps


def test_handlers_run_newest_first(st, machine):
    called: list[tuple[str, int]] = []
    ps = registered(st, called, 3, post=(0, 2))
    ap = there(get_kprobe(st, ps[0].addr))
    assert not call_pre(ap)
    call_post(ap)
    assert called == [("pre", 2), ("pre", 1), ("pre", 0), ("post", 2), ("post", 0)]


def test_a_handler_that_changed_ip_ends_the_round(st):
    called: list[tuple[str, int]] = []
    ps = registered(st, called, 3, ret={1: 1})
    ap = there(get_kprobe(st, ps[0].addr))
    assert call_pre(ap) == 1
    assert called == [("pre", 2), ("pre", 1)]


def test_text_is_armed_as_long_as_one_is_enabled(st, machine):
    ps = registered(st, [], 2)
    addr = ps[0].addr
    disable_kprobe(st, ps[0])
    assert machine.patched() == [addr]
    disable_kprobe(st, ps[1])
    assert machine.patched() == []
    assert kprobe_disabled(there(get_kprobe(st, addr)))
    enable_kprobe(st, ps[0])
    assert machine.patched() == [addr]
    assert kprobe_disabled(ps[1])


def test_an_enabled_one_joins_a_disabled_one(st, machine):
    a, b = probes([], 2)
    a.flags = KprobeFlag.DISABLED
    register_kprobe(st, a)
    assert machine.patched() == []
    register_kprobe(st, b)
    assert machine.patched() == [a.addr]
    assert kprobe_disabled(a)


def test_the_last_one_takes_the_aggregate_with_it(st, machine):
    ps = registered(st, [], 3)
    ap = there(get_kprobe(st, ps[0].addr))
    slot_used = st.arch.slots.nr_used
    for p in (ps[1], ps[2]):
        unregister_kprobe(st, p)
        assert get_kprobe(st, ps[0].addr) is ap
    assert st.arch.slots.nr_used == slot_used == 1
    unregister_kprobe(st, ps[0])
    assert get_kprobe(st, ps[0].addr) is None
    assert machine.patched() == []
    assert st.arch.slots.nr_used == 0
    assert not st.arch.handlers
    assert not st.arch.sites


def test_post_handler_of_the_aggregate_goes_with_the_last_that_has_one(st):
    ps = registered(st, [], 3, post=(0, 1))
    ap = there(get_kprobe(st, ps[0].addr))
    unregister_kprobe(st, ps[0])
    assert ap.post_handler
    unregister_kprobe(st, ps[1])
    assert ap.post_handler is None


def test_nmissed_is_each_ones_own_and_outlives_it(st):
    a, b = probes([], 2)
    register_kprobe(st, a)
    st.arch.handlers[a.handler] = 3
    register_kprobe(st, b)
    st.arch.handlers[a.handler] += 1
    st.arch.handlers[b.handler] += 1
    assert [kprobe_nmissed(st, p) for p in (a, b)] == [4, 1]
    unregister_kprobe(st, a)
    assert kprobe_nmissed(st, a) == a.nmissed == 4
    a.addr = 0
    register_kprobe(st, a)
    assert kprobe_nmissed(st, a) == 0


def test_failing_to_arm_leaves_the_others(st, machine):
    a, b = probes([], 2)
    a.flags = KprobeFlag.DISABLED
    register_kprobe(st, a)
    st.arch.fail["arch_arm_kprobe"] = 12
    with pytest.raises(Exception, match="ENOMEM"):
        register_kprobe(st, b)
    st.arch.fail.clear()
    assert there(get_kprobe(st, a.addr)).list == [a]
    assert b.handler is None
    enable_kprobe(st, a)
    assert machine.patched() == [a.addr]
