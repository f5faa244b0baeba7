# SPDX-License-Identifier: GPL-2.0-or-later
"""The options event-fork and function-fork: lists of processes of the host."""

import os
import subprocess
from contextlib import contextmanager

import pytest

from kpfs.backends.guest.tree import build
from kpfs.backends.guest.vfs import Vfs
from kpfs.base.ktypes import Caller
from tests.there import there

pytestmark = pytest.mark.guest
LIST, OPTION = "/tracing/set_event_pid", "/tracing/options/event-fork"
# The first makes the second, which makes the third; each sleeps.
GENERATIONS = "echo $$; sh -c 'echo $$; sleep 60 & echo $!; read x'; :"


@pytest.fixture
def vfs(kernel):
    return Vfs(kernel, build(kernel), lazy=True)


def caller(pid):
    return Caller(pid, os.getuid(), os.getgid())


def write(vfs, path, data):
    me = caller(os.getpid())
    opened = vfs.open(me, path, os.O_WRONLY)
    vfs.write(me, opened, data, 0)
    vfs.release(opened)


def read(vfs, path, pid=0):
    """Read a file as a process; 0 is our own."""
    reader = caller(pid or os.getpid())
    opened = vfs.open(reader, path, os.O_RDONLY)
    try:
        return vfs.read(reader, opened, 65536, 0).decode()
    finally:
        vfs.release(opened)


def listed(vfs, path=LIST):
    return [int(line) for line in read(vfs, path).split()]


@contextmanager
def generations():
    """The pids of a process, its child and its grandchild."""
    pipe, script = subprocess.PIPE, ["sh", "-c", GENERATIONS]
    with subprocess.Popen(script, text=True, stdin=pipe, stdout=pipe) as first:
        pids = [int(there(first.stdout).readline()) for _ in range(3)]
        assert pids[0] == first.pid
        try:
            yield pids
        finally:
            for pid in pids:
                os.kill(pid, 9)


def test_a_child_that_comes_to_the_files_is_listed_until_it_ends(vfs):
    write(vfs, LIST, b"%d" % os.getpid())
    write(vfs, OPTION, b"1")
    with subprocess.Popen(["sleep", "60"]) as child:
        read(vfs, OPTION, child.pid)
        assert listed(vfs) == sorted([os.getpid(), child.pid])
        child.kill()
    assert listed(vfs) == [os.getpid()]


def test_without_the_option_it_is_not(vfs):
    write(vfs, LIST, b"%d" % os.getpid())
    with subprocess.Popen(["sleep", "60"]) as child:
        write(vfs, "/tracing/events/sched/sched_process_fork/enable", b"1")
        read(vfs, OPTION, child.pid)
        child.kill()
    assert listed(vfs) == [os.getpid()]


def test_those_in_between_are_listed_too(vfs):
    """None of them has used the files."""
    write(vfs, LIST, b"%d" % os.getpid())
    write(vfs, OPTION, b"1")
    with generations() as pids:
        read(vfs, OPTION, pids[2])
        assert listed(vfs) == sorted([os.getpid(), *pids])


def test_without_the_option_no_parents_are_looked_up(vfs):
    write(vfs, LIST, b"%d" % os.getpid())
    with generations() as (_, second, third):
        write(vfs, OPTION, b"0")
        read(vfs, OPTION, third)
        write(vfs, OPTION, b"0")
        tasks = vfs.kernel.guest.task_table
        assert tasks.find(third) is not None
        assert tasks.find(second) is None


def test_the_event_of_a_fork_is_recorded_as_well(vfs):
    write(vfs, "/tracing/set_event_notrace_pid", b"%d" % os.getpid())
    write(vfs, "/tracing/events/sched/sched_process_fork/enable", b"1")
    write(vfs, "/tracing/options/stacktrace", b"1")
    with generations() as (first, second, _):
        read(vfs, OPTION, first)
        write(vfs, OPTION, b"1")
        read(vfs, OPTION, second)
    trace = read(vfs, "/tracing/trace")
    assert (
        f"sched_process_fork: comm=sh pid={first} child_comm=sh child_pid={second}"
        in trace
    )
    assert " => kernel_clone\n" in trace


def test_functions_of_children(vfs):
    write(vfs, "/tracing/set_ftrace_filter", b"*_sys_getppid\n")
    write(vfs, "/tracing/set_ftrace_pid", b"%d" % os.getpid())
    write(vfs, "/tracing/options/function-fork", b"1")
    write(vfs, "/tracing/current_tracer", b"function")
    with generations() as (first, *_):
        task = vfs.calls.task(caller(first))
        vfs.calls.call(task, "getppid")
        assert f"-{first} " in read(vfs, "/tracing/trace")
        assert listed(vfs, "/tracing/set_ftrace_pid") == sorted([os.getpid(), first])
    assert listed(vfs, "/tracing/set_ftrace_pid") == [os.getpid()]
