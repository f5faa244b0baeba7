# SPDX-License-Identifier: GPL-2.0-or-later
"""Filters: entries of the error log, filters of groups, lengths.

This also tests kpfs.engine.trace.event.event_file and kpfs.engine.trace.event.fields.
"""

import re

import pytest

from tests.there import code
from tests.unit.engine.trace.fakes import Trace, filter_store


@pytest.fixture(scope="module")
def shared():
    trace = Trace()
    trace.write(r'p:e vfs_read b=\"hello" e=\7:u64')
    return trace


def test_entry_of_the_error_log(shared):
    filter_store(shared.ts, shared.event("e"), "nosuch == 1\n")
    log = shared.ts.err_log.text()
    assert re.sub(r"^\[.*?\]", "[TS]", log.splitlines()[-3]) == (
        "[TS] event filter parse error: error: Field not found"
    )
    assert log.splitlines()[-2:] == ["  Command: nosuch == 1", " " * (11 + 7) + "^"]


def test_filter_of_a_group(trace):
    trace.write("p:a vfs_read x=%di\np:b vfs_write y=%di")
    trace.ts.array_events.group_filter_store("kprobes", b"x > 5\n")
    assert trace.file("a").filter_text() == "x > 5\n"
    assert trace.file("b").filter_text() == (
        "x > 5\n^\nparse_error: Couldn't find or set field in one of a subsystem's "
        "events\n\n"
    )
    trace.ts.array_events.group_filter_store("kprobes", b"0\n")
    assert trace.file("b").filter_text() == "none\n"
    assert code(trace.ts.array_events.group_filter_store, "nosuch", b"0") == "ENODEV"


def test_too_long(shared):
    event = shared.event("e")
    assert filter_store(shared.ts, event, "e == 7" + " " * 4090) == "EINVAL"
    assert filter_store(shared.ts, event, f'b == "{"x" * 256}"') == "EINVAL"
    assert "Operand too long" in shared.ts.array_events.file(event).filter_text()
    assert filter_store(shared.ts, event, f'b == "{"x" * 255}"') == ""
