# SPDX-License-Identifier: GPL-2.0-or-later
"""Ids of events: given out in order, then the lowest that is free."""

from kpfs.engine.trace.event import trace_event
from kpfs.engine.trace.event.trace_event import LAST_TYPE, Events, TraceEvent
from tests.there import code


def added(events, number):
    event = TraceEvent("group", f"e{number}")
    events.add(event)
    return event


def test_ids(monkeypatch):
    monkeypatch.setattr(trace_event, "TRACE_EVENT_TYPE_MAX", LAST_TYPE + 5)
    events = Events()
    fixed = TraceEvent("ftrace", "function", number=1)
    events.early_add(fixed)
    made = [added(events, number) for number in range(6)]
    assert [event.id for event in made] == [LAST_TYPE + i for i in range(6)]
    assert code(added, events, 6) == "ENODEV"
    for number in (4, 1, 3):
        events.remove(made[number])
    events.remove(fixed)
    assert [added(events, 10 + i).id - LAST_TYPE for i in range(2)] == [1, 3]
    events.remove(made[0])
    assert [added(events, 20 + i).id - LAST_TYPE for i in range(2)] == [0, 4]


def test_an_id_that_was_given_back_waits_until_all_were_given_out():
    events = Events()
    first = added(events, 0)
    events.remove(first)
    assert added(events, 1).id == LAST_TYPE + 1
