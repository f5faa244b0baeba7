# SPDX-License-Identifier: GPL-2.0-or-later
"""Handlers in Python, over both kinds of kernel.

This tests kpfs.backends.handlers.
"""

import errno
import os
import struct

import pytest

import kpfs
from tests import harness


@pytest.fixture(
    params=[
        pytest.param("", id="guest", marks=pytest.mark.guest),
        harness.on(harness.KERNEL, id="linux"),
    ]
)
def k(request):
    with kpfs.Kernel(kernel=request.param) as kernel:
        yield kernel


@pytest.fixture
def task(k):
    return k.task()


@pytest.fixture
def fd(task):
    """A descriptor of the task, of an empty file."""
    return task.syscall("openat", -100, "/tmp/f", os.O_RDWR | os.O_CREAT, 0o600)


def listed(k):
    return [line.split()[1:] for line in k.read("kprobes/list").splitlines()]


def test_handlers_see_registers_and_memory(k, task, fd):
    seen = []
    vfs_write = k.symbol("vfs_write")
    # the other way round 6.1 fails to disarm them: see test_linux.py
    behind = k.kprobe("vfs_write", post=lambda r: seen.append(r.ip - vfs_write))
    before = k.kprobe("vfs_write", lambda r: seen.append(k.read_string(r.si, 3)))
    back = k.kretprobe("vfs_write", lambda r: seen.append(r.ax))
    assert before.address == vfs_write
    assert task.syscall("write", fd, "abcdef", 6) == 6
    assert seen == ["abc", 5, 6]
    before.disable()
    behind.unregister()
    behind.unregister()
    assert listed(k) == [
        ["r", "vfs_write+0x0", "[FTRACE]"],
        ["k", "vfs_write+0x0", "[DISABLED][FTRACE]"],
    ]
    task.syscall("write", fd, "xyz", 3)
    assert seen == ["abc", 5, 6, 3]
    before.enable()
    back.unregister()
    task.syscall("write", fd, "xyz", 3)
    assert seen[4:] == ["xyz"]
    assert (before.nmissed, behind.nmissed, back.nmissed) == (0, 0, 0)
    before.unregister()
    assert listed(k) == []
    with pytest.raises(OSError, match="not registered"):
        before.enable()


def test_a_handler_of_a_jump(k, task, fd):
    seen = []
    with k.kprobe("vfs_write", lambda r: seen.append(r.dx), offset=5):
        k.clock.advance(1)
        assert listed(k) == [["k", "vfs_write+0x5", "[OPTIMIZED]"]]
        task.syscall("write", fd, "abc", 3)
    assert seen == [3]


def test_a_handler_can_change_what_happens(k, task, fd):
    """A handler makes the function return; a post handler prevents a jump."""

    def fail(regs):
        regs.ip = int.from_bytes(k.read_memory(regs.sp, 8), "little")
        regs.sp += 8
        regs.ax = -errno.ENOSPC
        return 1

    with (
        k.kprobe("vfs_write", fail, lambda _r: None, offset=5),
        pytest.raises(OSError, match="No space"),
    ):
        task.syscall("write", fd, "abc", 3)
    assert task.syscall("write", fd, "abc", 3) == 3

    def other(regs):
        k.write_memory(regs.si, b"XY")
        regs.dx = 2

    with k.kprobe("vfs_write", other):
        assert task.syscall("pwrite64", fd, "abc", 3, 0) == 2
    assert task.syscall("pread64", fd, task.buffer, 8, 0) == 3
    assert k.read_memory(task.buffer, 3) == b"XYc"


def test_an_entry_handler_chooses_calls(k, task, fd):
    seen = []
    with k.kretprobe(
        "vfs_write", lambda r: seen.append(r.ax), entry=lambda r: r.dx < 3
    ):
        for text in ("a", "abc", "ab", "abcd"):
            task.syscall("write", fd, text, len(text))
    assert seen == [3, 4]


def test_exception_of_a_handler_comes_out(k, task):
    def wrong(_regs):
        raise LookupError("in a handler")

    with k.kprobe("vfs_read", wrong), pytest.raises(LookupError, match="in a handler"):
        k.read("version")
    second = struct.pack("<qq", 0, 10**8)
    with (
        k.kretprobe("hrtimer_nanosleep", wrong),  # returns while nobody asks
        pytest.raises(LookupError, match="in a handler"),
    ):
        task.syscall("nanosleep", second, 0)
    for use in (lambda: k.read("version"), k.close):
        with (
            k.kprobe("vfs_read", lambda _r, use=use: use()),
            pytest.raises(RuntimeError, match="a handler cannot run the kernel"),
        ):
            k.read("version")
    assert listed(k) == []


def test_probes_that_are_refused(k):
    for name, offset, why in (
        ("no_such_function", 0, errno.ENOENT),
        ("do_int3", 1, errno.EINVAL),
        ("vfs_read", 6, errno.EILSEQ),
    ):
        with pytest.raises(OSError, match=name) as refused:
            k.kprobe(name, lambda _r: None, offset=offset)
        assert refused.value.errno == why
    with pytest.raises(OSError, match="Invalid argument"):
        k.kretprobe(k.symbol("vfs_read") + 5, lambda _r: None)
    assert listed(k) == []
