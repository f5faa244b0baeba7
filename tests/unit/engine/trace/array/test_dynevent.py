# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands in writes, deletion, and switches of events: what no recorded case has.

This also tests kpfs.engine.trace.array.array_events,
kpfs.engine.trace.array.trace_array, kpfs.engine.trace.array.trace_state and
kpfs.engine.trace.event.trace_event.
"""

import errno
import random

import pytest

from kpfs.base.errors import KernelError
from kpfs.engine.kprobe import kprobe_disabled
from tests.there import code


@pytest.mark.parametrize(
    ("text", "result"),
    [("#" * 5000 + "\n", "EINVAL"), ("\n" * 4000 + "#" * 200 + "\n", "")],
)
def test_limits_of_lines(trace, text, result):
    assert trace.write(text) == result


def test_too_long_a_line_is_said_in_the_log(trace):
    trace.write("#" * 5000)
    text = "Line length is too long: Should be less than 4094"
    assert (4, text) in trace.machine.log.lines


def test_lines_before_a_nul_are_run(trace):
    assert trace.write("p:a vfs_read\np:b vfs_write\0\n") == "EINVAL"
    assert trace.show() == "p:kprobes/a vfs_read\n"


@pytest.mark.parametrize(
    ("command", "result"),
    [
        (" -:a", "EINVAL"),
        ("-:a vfs_write", "ENOENT"),
        ("-:a vfs_read x=%di", ""),
        ("-:a vfs_read x=%si", "ENOENT"),
        ("-:a vfs_read x=%di y=%di", "ENOENT"),
    ],
)
def test_delete_forms(trace, command, result):
    trace.write("p:a vfs_read x=%di")
    assert trace.write(command) == result
    assert trace.errors() == []
    assert bool(trace.show()) == bool(result)


def test_a_sibling_can_go_while_the_event_is_enabled(trace):
    trace.write("p:m vfs_read")
    trace.on("m")
    trace.write("p:m vfs_write")
    assert not any(kprobe_disabled(p) for p in trace.st.kprobe_table.values())
    assert trace.write("-:m vfs_read") == ""
    assert trace.write("-:m vfs_write") == "EBUSY"


def test_group_and_order_of_files(trace):
    trace.write("p:g/b vfs_write\np:a vfs_read\np:a2 vfs_read")
    events = trace.ts.events
    assert events.groups() == ["ftrace", "g", "kprobes"]
    assert list(events.group("kprobes")) == ["a", "a2"]
    assert events.group("nosuch") == {}
    available = trace.ts.array_events.available_events_text()
    assert available == "kprobes:a2\nkprobes:a\ng:b\n"


def test_ids_are_not_used_again(trace):
    trace.write("p:a vfs_read\np:b vfs_read")
    first = trace.event("a").id
    assert trace.event("b").id == first + 1
    gone = trace.event("b")
    trace.write("-:b\np:c vfs_read")
    assert trace.event("c").id == first + 2
    assert gone.removed
    assert code(trace.ts.array_events.enable_store, gone, b"1") == "ENODEV"


@pytest.mark.parametrize(
    ("data", "result"),
    [(b"1", 1), (b"2", errno.EINVAL), (b"1" * 63, errno.ERANGE), (b"0" * 65, 0)],
)
def test_enable_values(trace, data, result):
    trace.write("p:e vfs_read")
    event = trace.event("e")
    if result > 1:
        with pytest.raises(KernelError) as error:
            trace.ts.array_events.enable_store(event, data)
        assert error.value.errno == result
        result = 0
    else:
        trace.ts.array_events.enable_store(event, data)
    assert event.tracing == bool(result)


def test_lines_without_a_command_are_passed_over(trace, monkeypatch):
    ran = []
    monkeypatch.setattr(
        trace.ts.dyn_events, "run_command", lambda command, _ops: ran.append(command)
    )
    rng = random.Random(1)
    for _ in range(200):
        lines = rng.choices(("", " \t", "#c", " # c", "p a", " q#r", "\xa0"), k=200)
        ran.clear()
        assert not trace.write("\n".join(lines))
        words = [line.partition("#")[0] for line in lines]
        assert [word for word in ran if word.strip()] == [w for w in words if w.strip()]
        assert len(ran) <= len([w for w in words if w.strip()]) + 1


def test_a_megabyte_of_newlines_runs_no_command(trace, monkeypatch):
    ran = []
    monkeypatch.setattr(
        trace.ts.dyn_events, "run_command", lambda command, _ops: ran.append(command)
    )
    assert not trace.write("\n" * (1 << 20))
    assert not ran
