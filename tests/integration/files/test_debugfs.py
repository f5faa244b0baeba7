# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of modules in debugfs, served by the modules' own functions.

What Linux makes of them is in tests/conformance/modules/debugfs.sh.
"""

import errno
import fcntl
import os

import pytest

from kpfs.base.errors import KernelError
from kpfs.base.ktypes import Caller
from tests.modbox import Box, build
from tests.there import code

TEXT = "/debug/calls/text"


@pytest.fixture
def box():
    box = Box()
    box.insmod(build("debugfs_calls"))
    yield box
    box.close()


def test_the_modules_own_functions_run(box):
    """A probe sees them; it is on a function that is nobody else's."""
    box.write("/tracing/kprobe_events", "p:r text_read count=%dx\np:w text_write\n")
    box.write("/tracing/events/kprobes/enable", "1")
    assert box.read(TEXT) == "as it was"
    box.write(TEXT, "changed")
    box.write("/tracing/events/kprobes/enable", "0")
    trace = box.read("/tracing/trace")
    assert " r: (text_read+0x0/" in trace
    assert trace.count(" w: (text_write+0x0/") == 1
    at = box.address("text")
    assert box.kernel.guest.read_cstring(at, 16) == b"changed"


def test_a_variable_is_the_guests_memory(box):
    at = box.address("number")
    box.kernel.guest.write(at, (77).to_bytes(4, "little"))
    assert box.read("/debug/calls/u32") == "77\n"
    box.write("/debug/calls/u32", "0x100")
    assert box.int_at("number") == 256


def test_a_child_has_the_same_open_file(box):
    """The child's reads go on where those of its parent have ended."""
    opened = box.vfs.open(box.caller, TEXT, os.O_RDONLY)
    assert box.vfs.read(box.caller, opened, 3, 0) == b"as "
    child = Caller(os.getppid(), 0, 0)
    assert box.vfs.read(child, opened, 3, 3) == b"it "
    assert len(opened.fds) == 1
    box.vfs.release(opened)


def test_a_position_that_is_set(box):
    opened = box.vfs.open(box.caller, TEXT, os.O_RDWR)
    assert box.vfs.read(box.caller, opened, 100, 6) == b"was"
    assert box.vfs.write(box.caller, opened, b"AS", 0) == 2
    assert (
        box.vfs.read(box.caller, opened, 100, 2) == b""
    )  # it ends at what was written
    assert box.vfs.read(box.caller, opened, 100, 0) == b"AS"
    box.vfs.release(opened)


def test_position_of_each_kind(box):
    for name, there in (("text", True), ("u32", False), ("array", False)):
        opened = box.vfs.open(box.caller, f"/debug/calls/{name}", os.O_RDONLY)
        assert opened.nonseekable is not there, name
        box.vfs.release(opened)


def test_flags_that_fcntl_has_set_are_those_of_the_guests_file(box):
    opened = box.vfs.open(box.caller, TEXT, os.O_RDWR)
    task = box.kernel.guest.requests.find(box.caller.pid)
    for flags in (os.O_RDWR | os.O_NONBLOCK | os.O_APPEND, os.O_RDWR):
        box.vfs.set_flags(opened, flags)
        get = "fcntl", opened.fds[task.table], fcntl.F_GETFL, 0
        assert box.kernel.guest.syscalls.call(task, *get) == flags == opened.flags
    box.vfs.release(opened)


def test_gone_while_it_is_open(box):
    opened = box.vfs.open(box.caller, "/debug/calls/u32", os.O_RDONLY)
    box.rmmod("debugfs_calls")
    for _ in range(2):
        assert code(box.vfs.read, box.caller, opened, 10, 0) == "EIO"
    box.vfs.release(opened)
    assert code(box.read, "/debug/calls/u32") == "ENOENT"


def test_a_module_is_in_use_while_its_file_is_open(box):
    opened = box.vfs.open(box.caller, TEXT, os.O_RDONLY)
    with pytest.raises(KernelError):
        box.rmmod("debugfs_calls")
    box.vfs.release(opened)
    box.rmmod("debugfs_calls")
    assert not box.kernel.debugfs.root.children


def test_a_child_does_not_keep_it_open(box):
    """The guest may fork it before it learns of the parent's close."""
    opened = box.vfs.open(box.caller, TEXT, os.O_RDONLY)
    guest = box.kernel.guest
    syscalls = guest.syscalls
    task = guest.requests.find(box.caller.pid)
    child = guest.host_tasks.of_process(777_001, 0, "child", task.pid)
    assert syscalls.call(child, "lseek", opened.fds[task.table], 0, 1) == -errno.EBADF
    box.vfs.release(opened)
    box.rmmod("debugfs_calls")


def test_nothing_is_left_in_the_guest(box):
    """Loaded again and again it takes no more memory."""

    def free() -> int:
        return int(box.call("nr_free_pages"))

    def once() -> None:
        box.rmmod("debugfs_calls")
        box.insmod(build("debugfs_calls"))
        box.read("/debug/calls/lines")

    for _ in range(3):
        once()
    before = free()
    for _ in range(20):
        once()
    assert free() >= before - 2


def test_by_the_guests_own_call(box):
    """A task that was not made through the mount finds the same files."""
    fd = box.syscall("openat", -100, "/sys/kernel/debug/calls/u32", 0, 0)
    assert fd >= 0
    assert box.syscall("openat", -100, "/sys/kernel/debug/calls/none", 0, 0) == -2
