# SPDX-License-Identifier: GPL-2.0-or-later
"""Entries and returns are paired by task and call, however much is missing."""

from kpfs.record.spans import spans
from kpfs.session.records import Record


def record(event, pid=7, group="kprobes", **fields):
    return Record(0, 0, pid, "sh", ".....", group, event, fields, "")


def enter(name, **more):
    return record(f"sys_enter_{name}", group="syscalls", **more)


def leave(name, **more):
    return record(f"sys_exit_{name}", group="syscalls", **more)


def entry(address, **more):
    return record("e", __probe_ip=address, **more)


def return_(address, **more):
    return record("r", __probe_func=address, __probe_ret_ip=1, **more)


def paired(*records):
    """Return the numbers of the records of each span."""
    number = {id(one): n for n, one in enumerate(records)}
    return [tuple(number[id(r)] for r in span if r) for span in spans(records)]


def test_a_system_call_with_calls_of_functions_in_it():
    seen = enter("read"), entry(0x10), entry(0x20), return_(0x20), return_(0x10)
    assert paired(*seen, leave("read")) == [(0, 5), (1, 4), (2, 3)]


def test_tasks_are_apart():
    seen = enter("read"), enter("read", pid=8), leave("read"), leave("read", pid=8)
    assert paired(*seen) == [(0, 2), (1, 3)]


def test_a_function_that_calls_itself():
    assert paired(*map(entry, (1, 1)), *map(return_, (1, 1))) == [(0, 3), (1, 2)]


def test_a_return_that_is_missing():
    """The call around it ends, so nothing that comes later is its return."""
    seen = enter("read"), entry(0x10), leave("read"), return_(0x10)
    assert paired(*seen) == [(0, 2), (1,), (3,)]


def test_an_entry_that_is_missing():
    assert paired(leave("read"), return_(0x10), entry(0x10)) == [(0,), (1,), (2,)]


def test_other_records():
    assert paired(record("mark"), entry(0x15), return_(0x10)) == [(0,), (1,), (2,)]


def test_raw_system_calls():
    seen = (
        record("sys_enter", group="raw_syscalls", id=0),
        record("sys_exit", group="raw_syscalls", id=0, ret=1),
        record("sys_exit", group="raw_syscalls", id=1, ret=1),
    )
    assert paired(*seen) == [(0, 1), (2,)]
