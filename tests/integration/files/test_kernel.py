# SPDX-License-Identifier: GPL-2.0-or-later
"""The composition root over the real guest.

This also tests kpfs.backends.guest.files.buffers,
kpfs.backends.guest.root.background, kpfs.backends.guest.root.host_calls and
 kpfs.backends.guest.root.guest_kernel.
"""

import os
import threading
import time

import pytest

from kpfs.backends.guest.files.tree import TABLE
from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.backends.guest.tree import build
from kpfs.backends.guest.vfs import Vfs
from kpfs.base import abi
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import Caller
from kpfs.config import Config
from kpfs.engine.kprobe import Kprobe
from kpfs.engine.register import register_kprobe
from kpfs.fs import machine
from kpfs.fs.node import walk
from kpfs.manual import differs
from tests import harness
from tests.harness import TIMEOUT, until
from tests.there import code, dir_at, write

pytestmark = pytest.mark.guest

ME = Caller(os.getpid(), 0, 0)

KPROBE_PROFILE = "/tracing/kprobe_profile"


def read(vfs, path, size=65536):
    opened = vfs.open(ME, path, os.O_RDONLY)
    try:
        return vfs.read(ME, opened, size, 0)
    finally:
        vfs.release(opened)


@pytest.fixture
def vfs(kernel):
    return Vfs(kernel, build(kernel))


def test_task_of_the_caller(kernel):
    task = kernel.syscalls.task(ME)
    with open("/proc/self/comm") as comm:
        assert (task.pid, task.comm) == (os.getpid(), comm.read().strip())
    assert kernel.syscalls.task(ME) is task
    assert kernel.syscalls.call(task, "getpid") == os.getpid()


ROWS = [*TABLE, *((f"machine/{name}", mode, _) for name, mode, _ in machine.FILES)]
FILES = {path for path, mode, _ in ROWS if mode < 0o10000} - Config().absent()


def test_the_guest_finds_every_file(vfs):
    for path in sorted(FILES):
        vfs.release(vfs.open(ME, f"/{path}", os.O_RDWR | os.O_NONBLOCK))


def test_the_absent_files_are_those_of_the_table(kernel):
    """tracefs-6.1.txt lists a real Linux 6.1's tracefs, two levels of it."""
    tracing = dir_at(build(kernel), "tracing")
    absent = set()
    for path in (harness.ROOT / "tests/data/tracefs-6.1.txt").read_text().split():
        try:
            walk(tracing, path)
        except KernelError:
            absent.add(path)
    assert absent == {name for row in differs.differences() for name in row.files}


def test_errnos_of_system_calls(kernel):
    task = kernel.syscalls.task(ME)
    assert code(kernel.syscalls.call, task, "close", 99) == "EBADF"
    assert code(kernel.syscalls.call, task, "no_such_call") == "ENOSYS"


def test_a_file_is_read_in_the_middle_of_a_system_call(kernel, vfs):
    hits = []

    def handler(p, regs):
        hits.append(kernel.guest.current().pid)

    register_kprobe(kernel.state, Kprobe(symbol_name="vfs_read", pre_handler=handler))
    assert read(vfs, "/kprobes/enabled") == b"1\n"
    assert hits == [os.getpid()]
    assert write(vfs, ME, "/kprobes/enabled", b"0\n") == 2
    assert read(vfs, "/kprobes/enabled") == b"0\n"
    assert len(hits) == 1


def test_a_file_takes_what_the_guest_has_of_a_write(kernel, vfs):
    def handler(p, regs):
        kernel.guest.write(regs.si, b"0")

    probe = Kprobe(symbol_name="full_proxy_write", pre_handler=handler)
    register_kprobe(kernel.state, probe)
    assert write(vfs, ME, "/kprobes/enabled", b"1\n") == 2
    assert read(vfs, "/kprobes/enabled") == b"0\n"


def test_a_write_that_is_longer_than_the_guest_brings(kernel, vfs):
    lines = b"".join(b"p:e%d vfs_read+%d\n" % (n, 0) for n in range(300))
    assert len(lines) > abi.HOST_DATA_SIZE
    assert write(vfs, ME, "/tracing/kprobe_events", lines) == len(lines)
    assert read(vfs, "/tracing/kprobe_events").count(b"\n") == 300


def test_dynamic_events_makes_kprobe_events_before_kprobe_events_is_used(vfs):
    assert write(vfs, ME, "/tracing/dynamic_events", b"p:e vfs_read\n") == 13
    assert read(vfs, "/tracing/kprobe_events") == b"p:kprobes/e vfs_read\n"


def test_errno_of_a_file_is_that_of_the_call(vfs):
    assert code(write, vfs, ME, "/kprobes/enabled", b"3") == "EINVAL"
    assert code(write, vfs, ME, "/kprobes/list", b"x") == "EINVAL"
    assert code(read, vfs, "/machine/syscall") == "EINVAL"
    assert code(vfs.open, ME, "/kprobes/nosuch", 0) == "ENOENT"
    assert code(vfs.open, ME, "/kprobes", 0) == "EISDIR"


def test_a_bug_in_a_file_comes_out_as_it_is(kernel, vfs):
    vfs.file("/kprobes/enabled").show = lambda: 1 // 0
    with pytest.raises(ZeroDivisionError):
        read(vfs, "/kprobes/enabled")
    assert read(vfs, "/kprobes/list") == b""


def test_machine_syscall(kernel, vfs):
    calls = []

    def handler(p, regs):
        calls.append(kernel.guest.current().pid)

    name = "__x64_sys_getppid"
    register_kprobe(kernel.state, Kprobe(symbol_name=name, pre_handler=handler))
    assert write(vfs, ME, "/machine/syscall", b"getppid\n" * 5) == 40
    assert calls == [os.getpid()] * 5
    assert code(write, vfs, ME, "/machine/syscall", b"frobnicate\n") == "ENOSYS"


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (b"close 99", "EBADF"),
        (b"frobnicate", "ENOSYS"),
        (b"getppid 1 2 3 4 5 6 7", "EINVAL"),
    ],
)
def test_machine_syscall_makes_the_calls_before_a_wrong_line(kernel, vfs, wrong, error):
    calls = []
    probe = Kprobe(
        symbol_name="__x64_sys_getppid", pre_handler=lambda *_: calls.append(1)
    )
    register_kprobe(kernel.state, probe)
    lines = [*[b"getppid"] * 200, wrong, *[b"getppid"] * 3]
    assert code(write, vfs, ME, "/machine/syscall", b"\n".join(lines) + b"\n") == error
    assert len(calls) == 200


def test_lines_of_machine_syscall_share_a_buffer_and_have_their_own_strings(
    kernel, vfs
):
    names = [b"/tmp/%d" % i + b"x" * 200 for i in range(100)]  # more than fit at once
    lines = [b'openat -100 "%s" 0102 0600' % name for name in names]  # O_RDWR | O_CREAT
    first = 3  # pid 1 of the guest has its console open
    write(vfs, ME, "/machine/syscall", b"\n".join(lines) + b"\n")
    more = b'write %d "text" 4\nlseek %d 0 0\nread %d buf 4\n' % ((first,) * 3)
    write(vfs, ME, "/machine/syscall", more)
    task = kernel.syscalls.task(ME)
    assert kernel.guest.read(task.buffer, 4) == b"text"
    for name in names:
        assert kernel.syscalls.call(task, "unlinkat", -100, name, 0) == 0


def test_the_guest_opens_files_of_the_mount(kernel, vfs):
    path = "/sys/kernel/debug/kprobes/enabled"
    task = kernel.syscalls.task(ME)
    fd = kernel.syscalls.call(task, "openat", -100, path, os.O_RDWR, 0)
    assert kernel.syscalls.call(task, "write", fd, b"0", 1) == 1
    assert kernel.state.kprobes_all_disarmed
    assert kernel.syscalls.call(task, "close", fd) == 0
    assert (
        code(kernel.syscalls.call, task, "openat", -100, path + "x", 0, 0) == "ENOENT"
    )


def test_large_writes_and_reads_pass(vfs):
    assert write(vfs, ME, "/kprobes/enabled", b"0" * 70000) == 70000
    assert len(read(vfs, "/kallsyms", 131072)) > 4096


RUNS = {
    "system call": lambda kernel, task: kernel.syscalls.call(task, "getppid"),
    "several": lambda kernel, task: kernel.syscalls.call_all(task, [("getppid", ())]),
    "function": lambda kernel, _: kernel.guest.call(
        kernel.guest.needed("get_next_timer_interrupt")
    ),
    "end": lambda kernel, task: kernel.guest.host_tasks.exit(task),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_a_waiter_is_woken_by_whatever_runs_the_guest(kernel, run):
    """The worker looks by itself now and then; what has run must wake it before."""
    background, sched = kernel.background, kernel.guest.sched
    task = kernel.syscalls.task(ME)
    with kernel.lock:
        begun = sched.turns
        waiter = background.prepare_to_wait(lambda: sched.turns > begun)
    thread = threading.Thread(target=background.wait, args=(waiter,))
    thread.start()
    with kernel.lock:
        assert not waiter.awake
        run(kernel, task)
        assert waiter.awake
    thread.join(TIMEOUT)
    assert not thread.is_alive()


def test_parts_are_made_once(kernel):
    seen = set()
    threads = [
        threading.Thread(target=lambda: seen.add(id(kernel.kprobe_events)))
        for _ in range(8)
    ]
    with kernel.lock:
        for thread in threads:
            thread.start()
        time.sleep(0.05)
        seen.add(id(kernel.kprobe_events))
    for thread in threads:
        thread.join()
    assert len(seen) == 1


def test_background_runs_and_sleeps():
    kernel = GuestKernel(nr_cpus=1)

    def turns():
        return kernel.guest.stats()["turns"]

    kernel.background.start()
    time.sleep(0.3)
    before, begin = turns(), kernel.guest.clock.now()
    until(lambda: turns() > before, "it does not run")
    time.sleep(1)
    with kernel.lock:
        seconds = (kernel.guest.clock.now() - begin) / 1e9
        assert turns() - before < 500 * seconds
    kernel.stop()
    kernel.stop()
    assert code(kernel.syscalls.task, ME) == "ESHUTDOWN"


def test_the_guest_does_not_run_while_its_text_is_written(vfs):
    """The directories of events go by guest code, which the probes are on."""
    kernel = vfs.kernel
    for function in ("tracefs_remove", "__d_drop", "dput", "vfs_read", "ksys_read"):
        write(vfs, ME, "/tracing/kprobe_events", f"p {function}+5\n".encode())
    for value in b"1", b"0":
        write(vfs, ME, "/tracing/events/kprobes/enable", value)
        if value == b"1":
            for _ in range(8):
                kernel.guest.tick()  # the optimizer runs
    opened = vfs.open(ME, "/tracing/kprobe_events", os.O_WRONLY | os.O_TRUNC)
    vfs.release(opened)
    assert read(vfs, "/kprobes/list") == b""


def test_reading_is_done_in_the_guest_as_soon_as_it_can_be_seen(kernel):
    vfs = Vfs(kernel, build(kernel), lazy=True)
    opened = vfs.open(ME, "/kprobes/enabled", os.O_RDONLY)

    def runs():
        """Return True if the guest runs for a read."""
        turns = kernel.guest.sched.turns
        assert vfs.read(ME, opened, 9, 0) == b"1\n"
        return kernel.guest.sched.turns > turns

    def profile():
        return dict(
            line.split()[:2] for line in read(vfs, KPROBE_PROFILE).decode().splitlines()
        )

    assert not runs()
    for name, place, seen in (("a", "vfs_mkdir", False), ("b", "vfs_read", True)):
        write(vfs, ME, "/tracing/kprobe_events", f"p:{name} {place}\n".encode())
        write(vfs, ME, f"/tracing/events/kprobes/{name}/enable", b"1")
        assert runs() == seen
    assert profile() == {"a": "0", "b": "2"}
    assert runs()
    assert profile() == {"a": "0", "b": "4"}
    for name in "ab":
        write(vfs, ME, f"/tracing/events/kprobes/{name}/enable", b"0")
    assert not runs()
    assert profile() == {"a": "0", "b": "4"}
    write(vfs, ME, "/tracing/kprobe_events", b"-:a\n-:b\n")
    vfs.release(opened)
