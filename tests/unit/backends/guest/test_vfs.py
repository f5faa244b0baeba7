# SPDX-License-Identifier: GPL-2.0-or-later
"""Open files as system calls of the caller's task."""

import errno
import os
from types import SimpleNamespace

import pytest

from kpfs.backends.guest.files.guest_file import GuestServed
from kpfs.backends.guest.vfs import Vfs
from kpfs.base import abi
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import Caller
from kpfs.base.skip_policy import EVERY, NONE
from kpfs.base.syscall_numbers import AT_FDCWD
from kpfs.fs.node import Dir, File, Handle
from tests.there import code, stand_in
from tests.unit.fakes import ME, FakeKernel, Value

PATH = "/kprobes/enabled"
GONE, WRITER = Caller(400, 0, 0), Caller(300, 0, 0)
LINUX_PATH = "/sys/kernel/debug/kprobes/enabled"


class ServedValue(GuestServed, Value):
    def __init__(self):
        Value.__init__(self)


@pytest.fixture
def kernel():
    return FakeKernel()


@pytest.fixture
def make(kernel):
    """A tree with one file."""

    def make(node):
        root, folder = Dir(), Dir()
        root.children["kprobes"] = folder
        folder.children["enabled"] = node
        return Vfs(kernel, root)

    return make


def names(kernel):
    return [(pid, name) for pid, name, _ in kernel.calls]


def test_each_operation_is_a_system_call(kernel, make):
    vfs = make(Value())
    opened = vfs.open(ME, PATH, os.O_RDWR)
    assert vfs.read(ME, opened, 100, 0) == b"1\n"
    assert vfs.write(ME, opened, b"0", 2) == 1
    vfs.release(opened)
    pid = ME.pid
    assert kernel.calls == [
        (pid, "openat", (AT_FDCWD, LINUX_PATH.encode(), os.O_RDWR, 0)),
        (pid, "read", (0, 0x1000, 100)),
        (pid, "write", (0, b"0", 1)),
        (pid, "close", (0,)),
    ]


def test_child_with_inherited_file_gets_a_descriptor(kernel, make):
    vfs = make(Value())
    opened = vfs.open(ME, PATH, os.O_RDONLY)
    child = Caller(200, 0, 0)
    for _ in range(2):
        vfs.read(child, opened, 1, 0)
    kernel.tasks[ME.pid].gone = True
    vfs.release(opened)
    assert names(kernel)[1:] == [
        (200, "openat"),
        (200, "read"),
        (200, "read"),
        (200, "close"),
    ]


def test_a_refused_open_leaves_nothing(kernel, make):
    class Busy(File):
        def opened(self, flags):
            raise KernelError(errno.EBUSY, "")

    assert code(make(Busy()).open, ME, PATH, os.O_WRONLY | os.O_TRUNC) == "EBUSY"


def test_a_descriptor_that_its_task_has_closed_itself(kernel, make, monkeypatch):
    released = []
    vfs = make(Value())
    opened = vfs.open(ME, PATH, os.O_RDWR)
    monkeypatch.setattr(opened.handle, "release", lambda: released.append(opened))
    kernel.results["close"] = -errno.EBADF
    vfs.release(opened)
    assert released == [opened]


class Pipe(File):
    text = b""

    def handle(self, flags, pid):
        return PipeHandle(self, flags, pid)


class PipeHandle(Handle):
    file: Pipe

    def ready(self):
        return bool(self.file.text)

    def read(self, size, offset):
        text, self.file.text = self.file.text, b""
        if not text:
            raise KernelError(errno.EAGAIN, "")
        return text


def test_a_blocked_read_waits_outside_the_system_call(kernel, make):
    pipe = Pipe()
    vfs = make(pipe)
    opened = vfs.open(ME, PATH, os.O_RDONLY)
    kernel.waits = [lambda: None, lambda: setattr(pipe, "text", b"line\n")]
    assert vfs.read(ME, opened, 100, 0) == b"line\n"
    assert names(kernel) == [(ME.pid, "openat"), (ME.pid, "read")]


def test_a_blocked_read_can_be_interrupted(kernel, make):
    vfs = make(Pipe())
    opened = vfs.open(ME, PATH, os.O_RDONLY)
    assert code(vfs.read, ME, opened, 100, 0) == "EINTR"


def test_nonblocking_read(kernel, make):
    vfs = make(Pipe())
    opened = vfs.open(ME, PATH, os.O_RDONLY | os.O_NONBLOCK)
    assert code(vfs.read, ME, opened, 100, 0) == "EAGAIN"


@pytest.fixture
def lazy(kernel, monkeypatch):
    """A tree with one file, whose reading is left out while nobody looks."""
    monkeypatch.setattr("kpfs.base.host_process.exists", lambda pid: pid != GONE.pid)
    root = Dir()
    root.children["enabled"] = Value()
    root.children["events"] = Value()
    return Vfs(kernel, root, lazy=True)


def write(vfs):
    opened = vfs.open(WRITER, "/events", os.O_WRONLY | os.O_TRUNC)
    vfs.write(WRITER, opened, b"1", 0)
    vfs.release(opened)


def test_unseen_operations_skip_the_guest(kernel, lazy):
    opened = lazy.open(ME, "/enabled", os.O_RDONLY)
    assert lazy.read(ME, opened, 100, 0) == b"1\n"
    assert lazy.read(ME, opened, 100, 2) == b""
    lazy.release(opened)
    assert (kernel.calls, kernel.left_out) == ([], 4)
    assert not kernel.tasks


def test_visible_operations_reach_the_guest(kernel, lazy):
    kernel.seen = EVERY
    lazy.release(lazy.open(ME, "/enabled", os.O_RDONLY))
    kernel.seen = NONE
    lazy.release(lazy.open(ME, "/enabled", os.O_WRONLY))
    assert names(kernel) == [(ME.pid, "openat"), (ME.pid, "close")] * 2
    assert not kernel.left_out


@pytest.mark.parametrize(("number", "made"), [(83, False), (0, True), (435, True)])
def test_reading_is_left_out_while_other_calls_are_seen(kernel, lazy, number, made):
    kernel.seen = frozenset((number,))
    lazy.release(lazy.open(ME, "/enabled", os.O_RDONLY))
    assert bool(kernel.calls) == made


def test_a_file_of_the_guests_own_code_needs_its_calls(kernel, make):
    vfs = make(ServedValue())
    vfs.lazy = True
    vfs.open(ME, PATH, os.O_RDONLY)
    assert (ME.pid, "openat") in names(kernel)


def test_before_somebody_may_look_the_guest_has_what_was_left_out(kernel, lazy):
    reader = Caller(200, 0, 0)
    opened = lazy.open(ME, "/enabled", os.O_RDONLY)
    for caller in (ME, reader, GONE):
        lazy.read(caller, opened, 1, 0)
    lazy.release(lazy.open(Caller(201, 0, 0), "/enabled", os.O_RDONLY))
    write(lazy)
    assert set(kernel.tasks) == {ME.pid, 200, 201, 300}
    before = [(ME.pid, "openat"), (200, "openat"), (300, "openat")]
    assert names(kernel) == [*before, (300, "write"), (300, "close")]
    kernel.calls.clear()
    kernel.seen = EVERY
    write(lazy)
    lazy.read(reader, opened, 1, 0)
    lazy.release(opened)
    assert names(kernel) == [
        *[(300, name) for name in ("openat", "write", "close")],
        (200, "read"),
        (ME.pid, "close"),
        (200, "close"),
    ]


@pytest.mark.parametrize(("number", "moves"), [(7, True), (9, False), (10, False)])
def test_a_descriptor_has_the_number_of_the_host(
    kernel, lazy, monkeypatch, number, moves
):
    def descriptor(task, opened):
        return opened.fds.setdefault(task.table, 9)

    monkeypatch.setattr(lazy, "_descriptor", descriptor)
    opened = lazy.open(ME, "/enabled", os.O_RDONLY)
    kernel.numbers[ME.pid] = number
    write(lazy)
    mine = [(name, args) for pid, name, args in kernel.calls if pid == ME.pid]
    assert mine == ([("dup2", (9, 7)), ("close", (9,))] if moves else [])
    assert list(opened.fds.values()) == [7 if moves else 9]


def test_processes_that_have_ended_are_forgotten(kernel, lazy, monkeypatch):
    monkeypatch.setattr("kpfs.backends.guest.vfs.UNSEEN_MAX", 3)
    for pid in (GONE.pid, 101, 102, 103):
        lazy.release(lazy.open(Caller(pid, 0, 0), "/enabled", os.O_RDONLY))
    write(lazy)
    assert set(kernel.tasks) == {101, 102, 103, 300}


class Request(SimpleNamespace):
    """struct kpfs_host_op"""

    def data(self):
        return self.bytes


def test_the_guest_itself_finds_the_files(kernel, make):
    make(Value())
    request = Request(kind=abi.HOST_OPEN, path=LINUX_PATH, flags=os.O_RDWR, pid=1)
    assert kernel.host_files(request) == 0
    cookie = request.cookie

    def ask(kind, pos, **more):
        request = Request(kind=kind, pos=pos, cookie=cookie, **more)
        return kernel.host_files(request), request.pos

    assert ask(abi.HOST_READ, 0, count=1) == (b"1", 1)
    assert ask(abi.HOST_READ, 1, count=9) == (b"\n", 2)
    assert ask(abi.HOST_WRITE, 2, bytes=b"0") == (1, 3)
    assert ask(abi.HOST_READ, 0, count=9) == (b"0\n", 2)
    ask(abi.HOST_RELEASE, 0)
    assert code(ask, abi.HOST_READ, 0, count=9) == "EINVAL"


def test_the_guest_asks_for_what_is_not_there(kernel, make):
    make(Value())
    for path in ("/sys/kernel/debug/x", "/elsewhere", "/sys/kernel/debug/kprobes/x"):
        request = Request(kind=abi.HOST_OPEN, path=path, flags=0, pid=1)
        assert code(kernel.host_files, request) == "ENOENT"


@pytest.mark.parametrize(
    ("blocked", "chosen"), [((False, False), 0), ((True, False), 1), ((True, True), -1)]
)
def test_the_task_that_closes_a_file_is_in_no_call(blocked, chosen):
    """A thread may be in a call while another one of its process closes the file."""
    tasks = [SimpleNamespace(table=5, gone=False, blocked=one) for one in blocked]
    opened = SimpleNamespace(fds={5: 3}, mark=0, moves=0, opener=tasks[0])
    vfs = SimpleNamespace(
        calls=SimpleNamespace(all_tasks=lambda: tasks, moves=0),
        descriptors=lambda opened: opened.fds,
    )
    holders = [(tasks[chosen], 3)] if chosen >= 0 else []
    assert Vfs._holders(stand_in(vfs), stand_in(opened)) == holders
