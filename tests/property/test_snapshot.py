# SPDX-License-Identifier: GPL-2.0-or-later
"""A restored kernel shows what a fresh one in that state shows.

This tests kpfs.backends.guest.snapshot and kpfs.guest.emu.frozen.
"""

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

import kpfs

pytestmark = pytest.mark.guest

EVENTS = "tracing/kprobe_events"
FILES = (
    "kprobes/list",
    EVENTS,
    "tracing/kprobe_profile",
    "tracing/error_log",
    "tracing/set_ftrace_filter",
    "tracing/per_cpu/cpu0/stats",
    "modules",
    "machine/probes",
    "machine/text/vfs_read",
    "machine/text/do_sys_openat2",
    "tracing/trace",
)


def write(path, *texts):
    def action(k):
        for text in texts:
            k.append(path, text)

    return action


def use_files(k):
    task = k.task(comm="user")
    fd = task.syscall("open", "/tmp/file", 0o102)
    task.syscall("write", fd, "text", 4)
    task.syscall("close", fd)
    k.read("version")


def make_instance(k):
    k.mkdir("tracing/instances/more")
    k.write("tracing/instances/more/events/sched/enable", "1")


def panic(k):
    """A handler of Python goes wrong, so that a task is killed."""

    def wild(regs):
        regs.di = 8

    with k.kprobe("vfs_write", wild):
        use_files(k)


ACTIONS = {
    "event": write(EVENTS, "p:e vfs_read+5 count=%dx", "r:back vfs_write $retval"),
    "path": write(EVENTS, "p:path do_sys_openat2 file=+0(%si):ustring"),
    "refused": write(EVENTS, "p:bad no_such_function"),
    "delete": write(EVENTS, "-:e"),
    "on": write("tracing/events/kprobes/enable", "1"),
    "off": write("tracing/events/kprobes/enable", "0"),
    "static": write("tracing/events/sched/sched_process_fork/enable", "1"),
    "filter": write("tracing/events/kprobes/e/filter", "count > 100"),
    "jumps": write("sys/debug/kprobes-optimization", "0", "1"),
    "no jumps": write("sys/debug/kprobes-optimization", "0"),
    "disarm": write("kprobes/enabled", "0"),
    "arm": write("kprobes/enabled", "1"),
    "function": write("tracing/current_tracer", "function"),
    "nop": write("tracing/current_tracer", "nop"),
    "only": write("tracing/set_ftrace_filter", "vfs_*"),
    "larger": write("tracing/buffer_size_kb", "2000"),
    "smaller": write("tracing/buffer_size_kb", "8"),
    "clear": lambda k: k.write("tracing/trace", ""),
    "marker": write("tracing/trace_marker", "here"),
    "instance": make_instance,
    "no instance": lambda k: k.rmdir("tracing/instances/more"),
    "insmod": lambda k: k.insmod("kprobe_example", symbol="vfs_read"),
    "kretprobe": lambda k: k.insmod("kretprobe_example"),
    "rmmod": lambda k: k.rmmod("kprobe_example"),
    "probe": lambda k: k.kprobe("vfs_open", lambda regs: None),
    "use": use_files,
    "wait": lambda k: k.clock.advance(0.3),
    "panic": panic,
}
STEPS = st.lists(st.sampled_from(sorted(ACTIONS)), max_size=6)


def do(k, steps):
    for step in steps:
        with suppress(OSError):  # some do not go together
            ACTIONS[step](k)


def shown(k):
    """Return all that can be seen; the trace is read last."""
    found = {"now": str(k.clock.now()), "dmesg": k.dmesg()}
    found |= (
        {"events": str(k.listdir("tracing/events/kprobes"))}
        if k.exists("tracing/events/kprobes")
        else {}
    )
    for path in FILES:
        try:
            found[path] = k.read(path)
        except OSError as error:
            found[path] = str(error)
    return found


def after(k, steps):
    do(k, steps)
    return shown(k)


@settings(
    max_examples=3,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
@example(before=[], between=list(ACTIONS), behind=["event", "on", "use"])
@example(before=["event", "on", "wait"], between=["delete", "off"], behind=["use"])
@example(before=["insmod", "use"], between=["rmmod", "kretprobe"], behind=["rmmod"])
@example(before=["instance", "larger"], between=["no instance"], behind=["use"])
@given(before=STEPS, between=STEPS, behind=STEPS)
def test_a_restored_kernel_is_as_a_fresh_one(before, between, behind):
    with kpfs.Kernel() as fresh:
        do(fresh, before)
        expected = after(fresh, behind)
    with kpfs.Kernel() as k:
        do(k, before)
        snapshot = k.snapshot()
        for _ in range(2):
            after(k, between)
            k.restore(snapshot)
            assert after(k, behind) == expected
            k.restore(snapshot)
