# SPDX-License-Identifier: GPL-2.0-or-later
"""Files about calls of functions: the profiler, kernel.ftrace_enabled, event dirs.

This also tests kpfs.engine.arch.x86.ftrace, kpfs.engine.arm,
kpfs.engine.trace.array.marker, kpfs.engine.trace.event.stack,
kpfs.engine.trace.event.static_events, kpfs.engine.trace.event.trigger,
kpfs.engine.trace.func.func_probe,
kpfs.engine.trace.func.function_tracer, kpfs.engine.trace.func.functions,
kpfs.engine.trace.func.profile, kpfs.engine.trace.trace_options,
kpfs.backends.guest.files.options, kpfs.backends.guest.files.tracers,
kpfs.guest.running.jump_labels,
kpfs.guest.running.trace_events and kpfs.guest.running.unwind.
"""

import os

import pytest

from kpfs.backends.guest.tree import build
from kpfs.backends.guest.vfs import Vfs
from kpfs.base.ktypes import Caller
from tests.there import code

pytestmark = pytest.mark.guest
ME = Caller(4711, 0, 0)


class Files:
    """Reads and writes files of a whole kernel, as one task."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.vfs = Vfs(kernel, build(kernel))

    def read(self, path):
        opened = self.vfs.open(ME, path, os.O_RDONLY)
        data, more = b"", b"x"
        while more:
            more = self.vfs.read(ME, opened, 4096, len(data))
            data += more
        self.vfs.release(opened)
        return data.decode()

    def write(self, path, text):
        opened = self.vfs.open(ME, path, os.O_WRONLY)
        try:
            self.vfs.write(ME, opened, text.encode(), 0)
        finally:
            self.vfs.release(opened)

    def getppid(self, times):
        with self.kernel.lock:
            for _ in range(times):
                self.kernel.syscalls.call(self.kernel.syscalls.task(ME), "getppid")

    def profile(self, function):
        """Return the calls of a function on all CPUs."""
        text = "".join(self.read(f"/tracing/trace_stat/function{n}") for n in (0, 1))
        lines = [line.split() for line in text.splitlines()]
        return sum(int(hit) for name, hit in lines if name == function)


@pytest.fixture
def files(kernel):
    return Files(kernel)


GETPPID = "__do_sys_getppid"


def test_calls_are_counted_while_the_profiler_is_on(files):
    enabled = "/tracing/function_profile_enabled"
    files.write("/tracing/set_ftrace_filter", f"{GETPPID}\n")
    files.getppid(1)
    files.write(enabled, "1\n")
    files.getppid(5)
    assert files.profile(GETPPID) == 5
    files.write(enabled, "0\n")
    files.getppid(2)
    assert (files.profile(GETPPID), files.read(enabled)) == (5, "0\n")
    files.write(enabled, "2\n")  # any number but 0, and from 0 again
    files.getppid(3)
    assert (files.profile(GETPPID), files.read(enabled)) == (3, "1\n")


def test_profile_follows_the_filter(files):
    files.write("/tracing/function_profile_enabled", "1")
    files.getppid(4)
    before = files.profile("vfs_open")
    assert before > 0
    files.write("/tracing/set_ftrace_filter", f"{GETPPID}\n")
    files.getppid(2)
    assert files.profile(GETPPID) == 6
    after = files.profile("vfs_open")
    assert files.profile("vfs_open") == after


def test_a_profile_begins_with_what_was_called_most(files):
    files.write("/tracing/function_profile_enabled", "1")
    files.getppid(9)
    files.write("/tracing/function_profile_enabled", "0")
    for cpu in (0, 1):
        header, rule, *lines = files.read(
            f"/tracing/trace_stat/function{cpu}"
        ).splitlines()
        assert header == "  Function                               Hit"
        assert rule == "  --------                               ---"
        counts = [int(line[32:]) for line in lines]
        assert counts == sorted(counts, reverse=True)


def test_ftrace_enabled_stops_tracer_and_probes(files):
    def hits():
        return int(files.read("/tracing/kprobe_profile").split()[1])

    files.write("/tracing/kprobe_events", f"p:e {GETPPID}\n")
    files.write("/tracing/events/kprobes/e/enable", "1")
    files.getppid(2)
    assert hits() == 2
    text = files.read(f"/machine/text/{GETPPID}")
    files.write("/sys/kernel/ftrace_enabled", "0")
    files.write("/tracing/function_profile_enabled", "1")
    files.getppid(3)
    assert (hits(), files.profile(GETPPID)) == (2, 0)
    assert "[FTRACE]" in files.read("/kprobes/list")
    assert "call" not in files.read(f"/machine/text/{GETPPID}").splitlines()[1]
    files.write("/sys/kernel/ftrace_enabled", "7\n")
    assert files.read("/sys/kernel/ftrace_enabled") == "7\n"
    files.getppid(4)
    assert (hits(), files.profile(GETPPID)) == (6, 4)
    files.write("/tracing/function_profile_enabled", "0")
    assert files.read(f"/machine/text/{GETPPID}") == text


def test_ftrace_enabled_is_a_number(files):
    for text in ("on", "0x1g", "4294967296"):
        assert code(files.write, "/sys/kernel/ftrace_enabled", text) == "EINVAL"
    assert files.read("/sys/kernel/ftrace_enabled") == "1\n"


def test_a_new_event_has_its_directory_made_in_the_guest(files):
    events = "/tracing/kprobe_events"
    files.write(events, "p:dirs tracefs_create_dir name=+0(%di):string\n")
    files.write(events, "p:gone tracefs_remove\n")
    files.write("/tracing/events/kprobes/enable", "1")
    files.write(events, "p:mine/other vfs_read\n-:mine/other\n")
    trace = files.read("/tracing/trace")
    made = [line.split("name=")[1] for line in trace.splitlines() if "name=" in line]
    assert made == ['"mine"', '"other"']
    assert trace.count(" gone: ") == 2


FILTER = "/tracing/set_ftrace_filter"
ALL = "#### all functions enabled ####\n"


def test_a_function_turns_tracing_off_as_often_as_said(files):
    files.write(FILTER, f"{GETPPID}:traceoff:1\n")
    assert files.read(FILTER) == ALL + f"{GETPPID}:traceoff:count=1\n"
    files.getppid(1)
    assert files.read("/tracing/tracing_on") == "0\n"
    assert files.read(FILTER) == ALL + f"{GETPPID}:traceoff:count=0\n"
    files.write("/tracing/tracing_on", "1")
    files.getppid(1)
    assert files.read("/tracing/tracing_on") == "1\n"
    assert code(files.write, FILTER, f"!{GETPPID}:traceoff\n") == "ENODEV"
    files.write(FILTER, f"!{GETPPID}:traceoff:0\n")
    assert files.read(FILTER) == ALL
    assert "call" not in files.read(f"/machine/text/{GETPPID}").splitlines()[1]


def test_a_command_leaves_the_tracer_s_functions_alone(files):
    files.write(FILTER, "vfs_open\n")
    files.write("/tracing/current_tracer", "function")
    files.write(FILTER, f"{GETPPID}:stacktrace\n")
    files.write("/tracing/trace_options", "nocontext-info")
    files.getppid(1)
    lines = files.read("/tracing/trace").splitlines()
    assert lines.count(f" => {GETPPID}") == 1
    assert f"{GETPPID} <-" not in "".join(lines)


def test_a_function_switches_an_event(files):
    event = "/tracing/events/syscalls/sys_exit_getppid/enable"
    files.write(FILTER, f"{GETPPID}:enable_event:syscalls:sys_exit_getppid\n")
    assert files.read(event) == "0*\n"
    files.getppid(1)
    assert files.read(event) == "1*\n"
    assert "sys_getppid -> " in files.read("/tracing/trace")


def test_functions_of_a_module_that_is_not_there_are_awaited(files):
    files.write(FILTER, "a*:mod:nosuch\n")
    assert files.read(FILTER) == "a*:mod:nosuch\n"
    assert code(files.write, FILTER, "!b:mod:nosuch\n") == "EINVAL"
    files.write(FILTER, "!a*:mod:nosuch\n")
    assert files.read(FILTER) == ALL
    files.write(FILTER, "*:mod:kprobe_example\n")
    files.write("/machine/insmod", "kprobe_example")
    text = files.read(FILTER)
    assert text == "after [kprobe_example]\nbefore [kprobe_example]\n"
    assert ":mod:" not in text
    functions = "/tracing/available_filter_functions"
    assert "[kprobe_example]" in files.read(functions)
    files.write("/machine/rmmod", "kprobe_example")
    assert (files.read(FILTER), "[" in files.read(functions)) == (ALL, False)


@pytest.mark.parametrize(
    ("event", "frames"),
    [
        ("p:e", ["kprobe_trace_func", "kprobe_dispatcher", "kprobe_ftrace_handler"]),
        (
            "r:e",
            [
                *("kretprobe_trace_func", "kretprobe_dispatcher"),
                *("kretprobe_rethook_handler", "rethook_trampoline_handler"),
                *("arch_rethook_trampoline_callback", "arch_rethook_trampoline"),
            ],
        ),
    ],
)
def test_a_trigger_shows_the_handlers_on_the_stack(files, event, frames):
    files.write("/tracing/kprobe_events", f"{event} {GETPPID}\n")
    files.write("/tracing/events/kprobes/e/trigger", "stacktrace")
    files.write("/tracing/events/kprobes/e/enable", "1")
    files.getppid(1)
    found = [
        line.removeprefix(" => ")
        for line in files.read("/tracing/trace").splitlines()
        if line.startswith(" => ") and "=> 0x" not in line
    ]
    assert found[: len(frames)] == frames
    assert found[-2:] == ["do_syscall_64", "entry_SYSCALL_64_after_hwframe"]


def test_tai_is_the_time_of_day(files, monkeypatch):
    day = 1_700_000_000
    monkeypatch.setattr(files.kernel.guest.clock, "real_offset", lambda: day * 10**9)
    files.write("/tracing/trace_clock", "tai")
    files.write("/tracing/trace_marker", "x")
    files.getppid(1)
    seconds = files.read("/tracing/trace").split(": tracing_mark_write")[0].split()[-1]
    assert day <= float(seconds) < day + 3600
