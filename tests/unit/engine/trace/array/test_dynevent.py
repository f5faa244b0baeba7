# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands in writes, deletion, and the switches of events.

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


def test_lines_comments_and_blanks(trace):
    text = "# only\n\n   \np:a vfs_read # tail\n  p:b   vfs_write\n\tp:c\tksys_read"
    assert trace.write(text) == ""
    assert trace.show() == (
        "p:kprobes/a vfs_read\np:kprobes/b vfs_write\np:kprobes/c ksys_read\n"
    )


def test_lines_before_a_bad_one_stay(trace):
    assert trace.write("p:a vfs_read\np:b nosuch\np:c ksys_read\n") == "ENOENT"
    assert trace.show() == "p:kprobes/a vfs_read\n"


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("a" * 4094, "EINVAL"),
        ("#" * 4095, ""),
        ("#" * 4096, "EINVAL"),
        ("\n" * 5000, ""),
        ("#abcdefgh\n" * 5000, ""),
        ("p:a vfs_read\0\n", "EINVAL"),
        ("p:a vfs_read\0p:b vfs_write\n", "EINVAL"),
        ("\0\n", "EINVAL"),
        ("\xff\xfe\n", "EINVAL"),
        ("p:d\x0bvfs_write\r\n", ""),
        ("p:d vfs_read\xa0\n", ""),
        ("p:e\x01 vfs_read\n", "EINVAL"),
        ("#" * 5000 + "\n", "EINVAL"),
        ("\n" * 4000 + "#" * 200 + "\n", ""),
    ],
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


@pytest.mark.parametrize("command", ["x:a vfs_read", "p", "p:a", "r", "!", "+", ":a v"])
def test_other_commands_leave_no_error_entry(trace, command):
    assert trace.write(command) == "EINVAL"
    assert trace.errors() == []


def test_delete_by_name_takes_all_groups(trace):
    trace.write("p:a vfs_read\np:g/b vfs_write\np:c ksys_read\np:g/c ksys_write")
    assert trace.write("-:a") == ""
    assert trace.write("-:nosuch") == "ENOENT"
    assert trace.write("-:g/b") == ""
    assert trace.write("-:g/b") == "ENOENT"
    assert trace.write("-:c") == ""
    assert trace.show() == ""
    assert trace.st.kprobe_table == {}


@pytest.mark.parametrize(
    ("command", "result"),
    [
        ("-", "EINVAL"),
        ("-a", "EINVAL"),
        ("-:", "EINVAL"),
        ("-:/a", "ENOENT"),
        ("-:g/", "ENOENT"),
        ("- :a", "EINVAL"),
        (" -:a", "EINVAL"),
        ("-:kprobes/", ""),
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


def test_delete_one_probe_of_several(trace):
    trace.write("p:a vfs_read\np:a vfs_write+5\n")
    assert trace.write("-:a vfs_write") == "ENOENT"
    assert trace.write("-:a vfs_write+5") == ""
    assert trace.show() == "p:kprobes/a vfs_read\n"


def test_enabled_event_is_busy(trace):
    trace.write("p:a vfs_read\np:b vfs_write")
    trace.on("b")
    assert trace.write("-:b") == "EBUSY"
    assert code(trace.ts.dyn_events.release_all, trace.ops) == "EBUSY"
    assert trace.show().count("\n") == 2
    trace.off("b")
    trace.ts.dyn_events.release_all(trace.ops)
    assert trace.show() == ""
    assert trace.ts.events.groups() == ["ftrace"]


def test_a_sibling_can_go_while_the_event_is_enabled(trace):
    trace.write("p:m vfs_read")
    trace.on("m")
    trace.write("p:m vfs_write")
    assert not any(kprobe_disabled(p) for p in trace.st.kprobe_table.values())
    assert trace.write("-:m vfs_read") == ""
    assert trace.write("-:m vfs_write") == "EBUSY"


def test_dynamic_events_takes_the_same_commands(trace):
    dyn = trace.ts.dyn_events
    dyn.run_commands(b"p:a vfs_read\nr:g/b vfs_read $retval")
    assert dyn.show() == "p:kprobes/a vfs_read\nr10:g/b vfs_read arg1=$retval\n"
    dyn.run_commands(b"-:a")
    assert trace.show() == "r10:g/b vfs_read arg1=$retval\n"
    for command, number in ((b"x:bad", errno.EINVAL), (b"!:x", errno.ENOENT)):
        with pytest.raises(KernelError) as error:
            dyn.run_commands(command)
        assert error.value.errno == number
    dyn.release_all()
    assert dyn.show() == ""


def test_deleting_an_event_that_was_enabled_clears_the_trace(trace):
    resets = []
    trace.ts.ring.reset = lambda: resets.append(1)
    trace.write("p:a vfs_read\np:b vfs_write")
    trace.on("a")
    trace.off("a")
    trace.write("-:b")
    assert resets == []
    trace.write("-:a")
    assert resets == [1]


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
    [
        (b"1", 1),
        (b"0", 0),
        (b"01", 1),
        (b"1\n", 1),
        (b"2", errno.EINVAL),
        (b"-1", errno.EINVAL),
        (b"1 ", errno.EINVAL),
        (b" 1", errno.EINVAL),
        (b"0x1", errno.EINVAL),
        (b"on", errno.EINVAL),
        (b"", errno.EINVAL),
        (b"1" * 63, errno.ERANGE),
        (b"0" * 65, 0),
    ],
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


def test_group_enable(trace):
    ts = trace.ts
    trace.write("p:a vfs_read\np:b vfs_write")
    assert ts.array_events.group_enable_text("kprobes") == "0\n"
    trace.on("a")
    assert ts.array_events.group_enable_text("kprobes") == "X\n"
    trace.on("b")
    assert ts.array_events.group_enable_text(None) == "1\n"
    ts.array_events.group_enable_store("kprobes", b"0")
    assert ts.array_events.group_enable_text("kprobes") == "0\n"
    with pytest.raises(KernelError):
        ts.array_events.group_enable_store("kprobes", b"X\n")


def test_set_event(trace):
    ts = trace.ts
    trace.write("p:a vfs_read\np:g/b vfs_write\np:g/a vfs_read")
    assert ts.array_events.set_event_store(b"kprobes:a\n") == 10
    assert ts.array_events.set_event_text() == "kprobes:a\n"
    assert ts.array_events.set_event_store(b"  g:* !g:*\n") == 6
    assert ts.array_events.set_event_text() == "g:a\ng:b\nkprobes:a\n"
    assert ts.array_events.set_event_store(b"!a") == 2
    assert ts.array_events.set_event_text() == "g:b\n"
    with pytest.raises(KernelError):
        ts.array_events.set_event_store(b"nosuch:ev")
    assert ts.array_events.set_event_store(b" \n") == 2
    ts.array_events.set_event_clear()
    assert ts.array_events.set_event_text() == ""


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
