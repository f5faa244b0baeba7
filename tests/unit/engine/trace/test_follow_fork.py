# SPDX-License-Identifier: GPL-2.0-or-later
"""Lists of pids that follow the forks of their tasks, as the options say."""

import pytest

from kpfs.base.abi import HC_FOLLOW_FORK
from kpfs.engine.runtime.records import MAIL0


@pytest.fixture
def happens(trace):
    """Act as guest code does at a fork, or (0, pid) when a task is gone."""

    def happens(pid, task):
        mail = trace.runtime.cpus[1]
        for i, value in enumerate((pid, task)):
            mail.words[mail.base + MAIL0 + i] = value
        trace.machine.traps.hypercalls[HC_FOLLOW_FORK](1)

    return happens


def lists(array):
    events, function = array.array_events, array.function
    kinds = events.event_pids, events.event_no_pids, function.pids, function.no_pids
    return [sorted(pids.pids or ()) for pids in kinds]


def write(array):
    events, function = array.array_events, array.function
    for pids in (events.event_pids, events.event_no_pids):
        events.set_event_pids(pids, b"7 70")
    for pids in (function.pids, function.no_pids):
        function.set_pids(pids, b"7 70")


def test_each_option_is_about_two_lists(trace, happens):
    write(trace.ts)
    happens(7, 8)
    assert lists(trace.ts) == [[7, 70]] * 4
    trace.ts.options.set("event-fork", True)
    happens(7, 9)
    assert lists(trace.ts) == [[7, 9, 70]] * 2 + [[7, 70]] * 2
    trace.ts.options.set("function-fork", True)
    happens(0, 70)
    assert lists(trace.ts) == [[7, 9]] * 2 + [[7]] * 2
    trace.ts.options.set("event-fork", False)
    happens(7, 10)
    happens(0, 7)
    assert lists(trace.ts) == [[7, 9]] * 2 + [[10]] * 2


def test_guest_code_calls_only_while_a_list_follows(trace):
    events, options = trace.machine.trace_events, trace.ts.options
    instance = trace.ts.mkdir("x")
    options.set("event-fork", True)
    follower = events.follower
    assert follower == trace.runtime.symbols["kp_follow_fork"]
    instance.options.set("function-fork", True)
    options.set("event-fork", False)
    assert events.follower == follower
    trace.ts.rmdir("x")
    assert events.follower == 0


def test_instances_have_lists_and_options_of_their_own(trace, happens):
    trace.ts.options.set("event-fork", True)
    instance = trace.ts.mkdir("x")
    for array in trace.ts.arrays():
        write(array)
    happens(7, 8)
    assert lists(instance) == [[7, 70]] * 4
    instance.options.set("event-fork", True)
    trace.ts.options.set("event-fork", False)
    happens(7, 9)
    assert lists(instance) == [[7, 9, 70]] * 2 + [[7, 70]] * 2
    assert lists(trace.ts) == [[7, 8, 70]] * 2 + [[7, 70]] * 2


def test_guest_code_gets_each_table(trace, happens):
    array = trace.ts
    array.options.set("event-fork", True)
    array.options.set("function-fork", True)
    write(array)
    for child in range(100, 200):
        happens(7, child)
    guest, events, function = array.guest, array.array_events, array.function
    assert (guest.pids, guest.no_pids, guest.fn_pids, guest.fn_no_pids) == (
        events.event_pids.addr,
        events.event_no_pids.addr,
        function.pids.addr,
        function.no_pids.addr,
    )
    for pids in (events.event_pids, function.pids):
        pids.clear()
    assert (guest.pids, guest.fn_pids) == (0, 0)
