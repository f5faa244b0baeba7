# SPDX-License-Identifier: GPL-2.0-or-later
"""A distribution's kernel in our machine: its kprobes, as it has them itself.

Tests kpfs.linux.arch.x86, kpfs.linux.running.linux_kernel,
kpfs.linux.running.tasks.
"""

import errno
import os
import re
import threading

import pytest

from kpfs.base import syscall_numbers as nr
from kpfs.base.data_model import LITTLE_64
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import Caller
from kpfs.linux.running import syscalls
from kpfs.linux.running.machine import Op, Out
from tests import harness
from tests.integration.linux.conftest import Process

pytestmark = pytest.mark.kernel

TRACING = "/sys/kernel/tracing"
EVENTS = f"{TRACING}/kprobe_events"
LIST = "/sys/kernel/debug/kprobes/list"
FUNCTION = "__x64_sys_getppid"


def trace(shell):
    """The lines of the trace without its header."""
    text = shell.read(f"{TRACING}/trace")
    return [line for line in text.splitlines() if not line.startswith("#")]


def pass_time(linux, seconds):
    with linux.lock:
        linux.machine.advance(linux.machine.now() + int(seconds * 1e9))


def enable(shell, *events):
    for text in events:
        shell.echo(EVENTS, text, os.O_APPEND)
    shell.echo(f"{TRACING}/events/kprobes/enable", "1")


@pytest.mark.parametrize(
    ("event", "listed", "line"),
    [
        (f"p:e {FUNCTION}", r"k .*\+0x0 +\[FTRACE\]", r"\(__do_sys_getppid\+0x0/"),
        (f"p:e {FUNCTION}+5", r"k .*\+0x5 *", r"\(__do_sys_getppid\+0x5/"),
        (f"r:e {FUNCTION}", r"r .*", r"\(.* <- __do_sys_getppid\)"),
    ],
    ids=("ftrace", "breakpoint", "return"),
)
def test_hits(process, event, listed, line):
    shell, other = process(), process()
    enable(shell, event)
    assert re.fullmatch(rf"[0-9a-f]+ +{listed}\n", shell.read(LIST))
    shell.getppid(3)
    lines = trace(other)  # Linux knows a name once another task has run
    assert len(lines) == 3
    for found in lines:
        assert re.search(rf" tester4000001-4000001 +\[000\].* e: {line}", found)
    assert shell.read(f"{TRACING}/kprobe_profile").split() == ["e", "3", "0"]
    shell.echo(f"{TRACING}/events/kprobes/enable", "0")
    shell.echo(EVENTS, "")
    assert shell.read(LIST) == ""


def test_a_probe_becomes_a_jump(linux, process):
    shell, other = process(), process()
    enable(shell, "p:e vfs_read+5")
    pass_time(linux, 0.3)
    assert re.fullmatch(r".* vfs_read\+0x5 +\[OPTIMIZED\]\n", shell.read(LIST))
    fd = shell.open("/proc/version")
    shell.echo(f"{TRACING}/trace", "")
    shell.call(*[Op(nr.READ, (fd, Out(8), 8))] * 3)
    shell.echo(f"{TRACING}/tracing_on", "0")  # or each read of it would add a hit
    mine = [line for line in trace(other) if " tester4000001-" in line]
    assert len(mine) == 3
    assert all("e: (vfs_read+0x5/" in line for line in mine)
    shell.echo("/proc/sys/debug/kprobes-optimization", "0")
    pass_time(linux, 0.3)
    assert re.fullmatch(r".* vfs_read\+0x5 *\n", shell.read(LIST))


@pytest.mark.parametrize(
    ("path", "text", "error"),
    [
        (EVENTS, "p:e", errno.EINVAL),
        (EVENTS, "p:e no_such_function", errno.ENOENT),
        (EVENTS, "p:e kprobe_dispatcher", errno.EINVAL),
        (f"{TRACING}/tracing_on", "x", errno.EINVAL),
        (f"{TRACING}/none", "1", errno.ENOENT),
        (f"{TRACING}/README", "1", errno.EINVAL),
    ],
)
def test_wrong_writes(shell, path, text, error):
    assert shell.write(path, text) == -error
    assert (shell.read(EVENTS), shell.read(LIST)) == ("", "")


def test_instances(shell):
    path = f"{TRACING}/instances/mine".encode() + b"\0"
    made = shell.call(Op(nr.MKDIRAT, (nr.AT_FDCWD, path, 0o755)))
    assert made.results == [0]
    assert "nop" in shell.read(f"{TRACING}/instances/mine/current_tracer")
    again = shell.call(Op(nr.MKDIRAT, (nr.AT_FDCWD, path, 0o755)))
    assert again.results == [-errno.EEXIST]
    gone = shell.call(Op(nr.UNLINKAT, (nr.AT_FDCWD, path, nr.AT_REMOVEDIR)))
    assert gone.results == [0]


def test_a_reader_is_woken_by_another_task(linux, process):
    reader, writer = process(), process()
    fd = reader.open(f"{TRACING}/trace_pipe")
    found = []

    def read():
        reply = reader.call(Op(nr.READ, (fd, Out(4096), 4096)))
        found.append(reply.out(0, reply.results[0]))

    thread = threading.Thread(target=read)
    thread.start()
    while not reader.task.waits:
        pass
    writer.echo(f"{TRACING}/trace_marker", "hello")
    thread.join(20)
    assert b"tracing_mark_write: hello" in found[0]


def test_poll_ends_when_there_is_something(linux, process):
    reader, writer = process(), process()
    fd = reader.open(f"{TRACING}/trace_pipe", os.O_NONBLOCK)
    poll = Op(
        nr.POLL, (LITTLE_64.struct(syscalls.POLLFD).pack(fd, nr.POLLIN, 0), 1, -1)
    )
    with linux.lock:
        linux.tasks.begin(reader.task, [poll])
    assert reader.task.waits
    writer.echo(f"{TRACING}/trace_marker", "hello")
    assert not reader.task.waits
    assert linux.machine.results(reader.task.slot, 1) == [1]


def test_task_that_left_a_call_makes_the_next(linux, shell):
    fd = shell.open(f"{TRACING}/trace_pipe")
    with linux.lock:
        linux.tasks.begin(shell.task, [Op(nr.READ, (fd, Out(4096), 4096))])
        assert shell.task.waits
        reply = linux.tasks.request(shell.task, [Op(nr.GETPID)])
    assert reply.results == [shell.task.pid]


def test_a_close_that_waits_is_not_left(linux, shell):
    """poll() stands for a close() here."""
    slow = Op(nr.POLL, (0, 0, 200))
    with linux.lock:
        shell.task.closing, begin = [], linux.machine.now()
        linux.tasks.begin(shell.task, [slow])
        assert shell.task.waits
        reply = linux.tasks.request(shell.task, [Op(nr.GETPID)])
        assert reply.results == [shell.task.pid]
        assert linux.machine.now() > begin + 200_000_000


def test_a_call_that_may_not_wait_does_not(linux, shell):
    fd = shell.open(f"{TRACING}/trace_pipe")
    with linux.lock:
        made = linux.tasks.attempt(shell.task, [Op(nr.READ, (fd, Out(4096), 4096))])
    assert made == [-errno.EINTR]


def test_pids_and_names_and_ends(linux, process):
    tasks = [process().task for _ in range(3)]
    shell = process()
    for task in tasks:
        status = shell.read(f"/proc/{task.pid}/comm")
        assert status == f"{task.comm}\n"
        assert task.pid == task.host_pid
    free = len(linux.tasks._free)
    with linux.lock:
        linux.tasks.exit(tasks[0])
        linux.tasks.kill(tasks[1])
    assert len(linux.tasks._free) == free + 2
    assert shell.call(Op(nr.KILL, (tasks[0].pid, 0))).results == [-errno.ESRCH]
    assert shell.call(Op(nr.KILL, (tasks[2].pid, 0))).results == [0]


def test_nobody_becomes_a_second_agent(shell):
    path, none = b"/proc/self/exe\0", b"\0" * 8
    assert shell.call(Op(nr.EXECVE, (path, none, none))).results == [-errno.EACCES]


def test_a_write_that_nobody_reads_ends_no_task(shell):
    pipe = shell.call(Op(nr.PIPE, (Out(8),))).out(0, 8)
    ends = int.from_bytes(pipe[:4], "little"), int.from_bytes(pipe[4:], "little")
    shell.call(Op(nr.CLOSE, (ends[0],)))
    assert shell.call(Op(nr.WRITE, (ends[1], b"x", 1))).results == [-errno.EPIPE]
    assert shell.call(Op(nr.GETPID)).results == [shell.task.pid]


def test_pointers_are_hashed(shell):
    found = re.search(f"(.*) T {FUNCTION}", shell.read("/proc/kallsyms"))
    assert found
    shell.echo(EVENTS, f"p:e 0x{found[1]}")
    assert "ptrval" not in shell.read(EVENTS)


def test_two_kernels_at_once(boot):
    first, second = (Process(boot(), 4_000_001) for _ in range(2))
    enable(first, f"p:e {FUNCTION}")
    assert second.read(EVENTS) == ""
    second.getppid()
    assert trace(first) == trace(second) == []
    first.getppid()
    assert len(trace(first)) == 1


def test_the_same_session_twice_gives_the_same_trace(boot):
    def session():
        shell = Process(boot(), 4_000_001)
        enable(shell, f"p:e {FUNCTION}", f"r:f {FUNCTION}")
        shell.getppid(5)
        return shell.read(f"{TRACING}/trace")

    assert session() == session()


def test_time_follows_the_hosts(boot):
    import time

    kernel = boot(quiet=False)
    shell = Process(kernel, 4_000_001)
    begin = float(shell.read("/proc/uptime").split()[0])
    time.sleep(0.3)
    assert float(shell.read("/proc/uptime").split()[0]) - begin >= 0.29


@pytest.mark.logs("the guest is dead: kernel panic: sysrq triggered crash")
def test_panic(linux, process, caplog):
    shell, other = process(), process()
    for task in (shell, shell, other):
        with pytest.raises(KernelError, match="kernel panic") as caught:
            task.echo("/proc/sysrq-trigger", "c")
        assert caught.value.errno == errno.ESHUTDOWN
    assert caplog.text.count("the guest is dead") == 1


def test_busy_task_does_not_hold_up_others(linux, process):
    """Others go on even if one of them wakes the busy task."""
    restless, other = process(), process()
    reply = other.call(Op(nr.EVENTFD2, (0, 0)))
    bell = reply.results[0]
    with linux.lock:
        restless.task = linux.tasks.fork(
            other.task, Caller(4_000_100, os.getuid(), os.getgid()), "restless"
        )
    symbols = restless.open("/proc/kallsyms")  # whose begin is made in vain
    forever = [Op(nr.PREAD64, (symbols, Out(8), 8, 1 << 22))] * 20
    with linux.lock:  # so that no time passes meanwhile
        linux.tasks.begin(restless.task, [Op(nr.READ, (bell, Out(8), 8)), *forever])
        assert restless.task.waits
        rung = other.call(Op(nr.WRITE, (bell, b"\1" + bytes(7), 8)))
        assert rung.results == [8]
        for _ in range(3):
            other.getppid()
            assert restless.task.waits
        linux.tasks.kill(restless.task)
    other.getppid()


@pytest.mark.riscv64_kernel
def test_an_exit_closes_files_before_it_is_over(boot):
    """Tracing a function takes long there, and others run meanwhile."""
    linux = boot(harness.RISCV64)
    shell, ends = Process(linux, 4_000_001), Process(linux, 4_000_002)
    filters = f"{TRACING}/set_ftrace_filter"
    shell.echo(filters, "vfs_open")
    fd = ends.open(filters, os.O_WRONLY | os.O_APPEND)
    ends.call(Op(nr.WRITE, (fd, b"vfs_read", 8)))
    with linux.lock:
        linux.tasks.exit(ends.task)
    assert shell.read(filters) == "vfs_open\nvfs_read\n"
