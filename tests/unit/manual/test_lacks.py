# SPDX-License-Identifier: GPL-2.0-or-later
"""A failed operation on tracefs is found in the table of differences."""

import pytest

from kpfs.manual import differs
from kpfs.manual.lacks import Lacks

PRESENT = "sched", "syscalls", "raw_syscalls"


@pytest.fixture(scope="module")
def lacks():
    return Lacks(lambda: PRESENT)


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("uprobe_events", "uprobes; kpfs run --kernel 6.12 --inside has"),
        ("instances/a/events/sched/sched_switch/hist", "hist triggers; "),
        ("max_graph_depth", "tracer function_graph; "),
        ("options/funcgraph-irqs", "tracer function_graph; "),
        ("options/hex", "option hex; "),
        ("events/block", "event block:*; "),
        ("events/block/block_rq_issue", "event block:block_rq_issue; "),
        ("events/sched/sched_stat_runtime/enable", "event sched:sched_stat_runtime; "),
        ("events/syscalls/sys_enter_bind", "event syscalls:sys_enter_bind; "),
    ],
)
def test_files_that_linux_has(lacks, path, what):
    assert lacks.looked_for(path).text.startswith(f"the guest kernel has no {what}")


@pytest.mark.parametrize(
    "path",
    [
        *("nosuch", "options/nosuch", "events/nosuch", "events/sched/nosuch"),
        *("events/block/nosuch", "events/sched", "instances/uprobe_events", "events"),
    ],
)
def test_files_that_linux_has_not(lacks, path):
    assert lacks.looked_for(path) is None


@pytest.mark.parametrize(
    ("path", "text", "what"),
    [
        ("events/sched/sched_switch/trigger", "hist:keys=pid\n", "hist triggers"),
        ("instances/a/events/x/y/trigger", "!hist:keys=a b\n", "hist triggers"),
        ("events/x/y/trigger", "enable_hist:sched:a", "hist triggers"),
        ("current_tracer", "function_graph\n", "tracer function_graph"),
        ("current_tracer", "blk\0x", "tracer blk"),
        ("dynamic_events", "e:x sched/sched_switch\n", "event probes"),
        ("dynamic_events", "f:x vfs_read\n", "function or tracepoint probes"),
        ("dynamic_events", "t sched_switch\n", "function or tracepoint probes"),
        ("dynamic_events", "p:x /bin/ls:0x40", "uprobes"),
        ("trace_clock", "x86-tsc", "clock x86-tsc"),
        ("trace_options", "nohex\n", "option hex"),
        ("set_event", "sched:sched_switch block:*", "event block:*"),
        ("set_event", "!block_rq_issue", "event block:block_rq_issue"),
        ("set_event", "block", "event block:*"),
        ("set_ftrace_filter", "schedule:cpudump:1", "commands dump and cpudump"),
    ],
)
def test_writes_that_linux_takes(lacks, path, text, what):
    hint = lacks.refused(path, text.encode())
    assert hint.text.startswith(f"the guest kernel has no {what}")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("events/sched/sched_switch/trigger", "histogram"),
        ("events/sched/sched_switch/filter", "hist:keys=pid"),
        ("current_tracer", "function_graphs"),
        ("dynamic_events", "p:x vfs_read+0x1"),
        ("set_event", "sched:nosuch sched:sched_switch sched: nosuch:"),
        ("trace_options", "nosuch"),
        ("trace_clock", "x86"),
    ],
)
def test_writes_that_linux_refuses_too(lacks, path, text):
    assert lacks.refused(path, text.encode()) is None


def test_each_row_says_when_it_is_met_and_the_way_out():
    for row in differs.differences():
        if row.lacked:
            assert row.files or row.met, row
            assert row.out.startswith("`kpfs run "), row
            assert len(row.lacked.format("x")) < 50, row
