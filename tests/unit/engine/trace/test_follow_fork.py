# SPDX-License-Identifier: GPL-2.0-or-later
"""Guest code asks about forks only while a list follows them.

Recorded cases and integration/files/test_fork_options.py say which follow, and when.
"""

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


def write(array):
    events, function = array.array_events, array.function
    for pids in (events.event_pids, events.event_no_pids):
        events.set_event_pids(pids, b"7 70")
    for pids in (function.pids, function.no_pids):
        function.set_pids(pids, b"7 70")


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
