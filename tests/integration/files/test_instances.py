# SPDX-License-Identifier: GPL-2.0-or-later
"""tracing/instances over the real guest: made, used apart from the first, removed.

This also tests kpfs.engine.trace.array.array_events,
kpfs.engine.trace.array.trace_array, kpfs.engine.trace.array.trace_state,
kpfs.backends.guest.files.array_file and
kpfs.backends.guest.files.instances.
"""

import errno
import os

import pytest

from kpfs.backends.guest.tree import build
from kpfs.backends.guest.vfs import Vfs
from kpfs.base.errors import KernelError
from kpfs.fs.node import walk
from tests.there import code, dir_at, shown, write
from tests.unit.fakes import ME

pytestmark = pytest.mark.guest


@pytest.fixture
def vfs(kernel):
    return Vfs(kernel, build(kernel))


def test_an_instance_records_by_itself(vfs):
    instances = dir_at(vfs.root, "/tracing/instances")
    instances.mkdir("i")
    assert list(instances.names()) == ["i"]
    assert walk(vfs.root, "/tracing/instances/i").mode == 0o40750
    write(vfs, ME, "/tracing/kprobe_events", b"p:e __x64_sys_getppid\n")
    top, own = "/tracing/events/kprobes/e", "/tracing/instances/i/events/kprobes/e"
    write(vfs, ME, f"{own}/enable", b"1")
    write(vfs, ME, "/machine/syscall", b"getppid\n" * 3)
    assert shown(vfs.root, f"{top}/enable") == "0\n"
    assert shown(vfs.root, f"{own}/enable") == "1\n"
    assert shown(vfs.root, "/tracing/instances/i/trace").count(": e: ") == 3
    assert ": e: " not in shown(vfs.root, "/tracing/trace")
    assert (
        code(vfs.open, ME, "/tracing/kprobe_events", os.O_WRONLY | os.O_TRUNC)
        == "EBUSY"
    )
    instances.rmdir("i")
    assert list(instances.names()) == []
    vfs.release(vfs.open(ME, "/tracing/kprobe_events", os.O_WRONLY | os.O_TRUNC))


def test_an_open_file_holds_its_instance(vfs):
    instances = dir_at(vfs.root, "/tracing/instances")
    instances.mkdir("i")
    opened = vfs.open(ME, "/tracing/instances/i/trace", os.O_RDONLY)
    assert code(instances.rmdir, "i") == "EBUSY"
    vfs.release(opened)
    instances.rmdir("i")
    with pytest.raises(KernelError) as info:
        instances.rmdir("i")
    assert info.value.errno in (errno.ENOENT, errno.ENODEV)


def test_a_file_that_describes_does_not_hold_its_instance(vfs):
    instances = dir_at(vfs.root, "/tracing/instances")
    for name in ("format", "id", "trigger"):
        instances.mkdir("i")
        path = f"/tracing/instances/i/events/sched/sched_switch/{name}"
        opened = vfs.open(ME, path, os.O_RDONLY)
        instances.rmdir("i")
        assert code(vfs.read, ME, opened, 100, 0) == "ENODEV"
        vfs.release(opened)


def instances_at_once(vfs, count):
    """Make so many, have the same event on in each, and remove them again."""
    instances = dir_at(vfs.root, "/tracing/instances")
    memory = vfs.kernel.guest.memory
    free = list(memory.far._free), list(memory.area._free)
    write(vfs, ME, "/tracing/kprobe_events", b"p:e __x64_sys_getppid\n")
    for i in range(count):
        instances.mkdir(f"i{i}")
        if i % 3:
            path = f"/tracing/instances/i{i}/events/kprobes/e"
            if i % 3 == 2:
                write(vfs, ME, f"{path}/filter", b"common_pid == 0")
            write(vfs, ME, f"{path}/enable", b"1")
    write(vfs, ME, "/machine/syscall", b"getppid\n" * 2)
    for i in range(count):
        text = shown(vfs.root, f"/tracing/instances/i{i}/trace")
        assert text.count(": e: (") == (2 if i % 3 == 1 else 0)
    for i in range(count):
        instances.rmdir(f"i{i}")
    vfs.release(vfs.open(ME, "/tracing/kprobe_events", os.O_WRONLY | os.O_TRUNC))
    for _ in range(9):
        vfs.kernel.guest.tick()
    assert memory.far._free == free[0]
    return free[1]


def test_many_instances_at_once(vfs):
    """Their rings, 2.8 MB each, take no memory before something is recorded."""
    instances_at_once(vfs, 100)
    heap = instances_at_once(vfs, 100)
    assert vfs.kernel.guest.memory.area._free == heap


@pytest.mark.slow
def test_three_thousand_instances(vfs):
    instances_at_once(vfs, 3000)


def size_kb(vfs, path="/tracing"):
    return shown(vfs.root, f"{path}/buffer_size_kb")


def test_a_ring_of_any_size_or_as_it_was(vfs, monkeypatch):
    write(vfs, ME, "/tracing/kprobe_events", b"p:e __x64_sys_getppid\n")
    write(vfs, ME, "/tracing/events/kprobes/e/enable", b"1")
    write(vfs, ME, "/machine/syscall", b"getppid\n")
    for size, kept in ((100000, 100003), (600000, 600003), (40000, 40003)):
        write(vfs, ME, "/tracing/buffer_size_kb", b"%d" % size)
        assert size_kb(vfs) == f"{kept}\n"
        write(vfs, ME, "/machine/syscall", b"getppid\n")
    assert shown(vfs.root, "/tracing/trace").count(": e: (") == 4
    left = [1 << 40, 1 << 20]  # for the first CPU, not for the second
    monkeypatch.setattr(
        "kpfs.guest.emu.memory._available", lambda: left.pop(0) if left[1:] else left[0]
    )
    free = list(vfs.kernel.guest.memory.near._free)
    with pytest.raises(KernelError, match="ENOMEM"):
        write(vfs, ME, "/tracing/buffer_size_kb", b"50000")
    monkeypatch.undo()
    assert size_kb(vfs) == "40003\n"
    assert vfs.kernel.guest.memory.near._free == free
    write(vfs, ME, "/machine/syscall", b"getppid\n")
    assert shown(vfs.root, "/tracing/trace").count(": e: (") == 5
    with pytest.raises(KernelError, match="ENOMEM"):
        write(vfs, ME, "/tracing/buffer_size_kb", b"100000000")
    assert size_kb(vfs) == "40003\n"


def test_an_instance_that_finds_no_memory_leaves_nothing(vfs, monkeypatch):
    instances = dir_at(vfs.root, "/tracing/instances")
    assert size_kb(vfs) == "7 (expanded: 1408)\n"
    free = list(vfs.kernel.guest.memory.far._free)
    monkeypatch.setattr("kpfs.guest.emu.memory._available", lambda: 4096)
    with pytest.raises(KernelError, match="ENOMEM"):
        instances.mkdir("i")
    assert list(instances.names()) == []
    assert vfs.kernel.guest.memory.far._free == free
    monkeypatch.undo()
    instances.mkdir("i")
    instances.rmdir("i")


@pytest.mark.parametrize("place", ["/tracing", "/tracing/instances/i"])
def test_a_refused_write_says_what_the_guest_lacks(vfs, place):
    dir_at(vfs.root, "/tracing/instances").mkdir("i")
    trigger = f"{place}/events/sched/sched_switch/trigger"
    assert code(write, vfs, ME, trigger, b"hist:keys=pid\n") == "EINVAL"
    why = "the guest kernel has no hist triggers; kpfs run --kernel 6.12 has"
    first, command, caret = shown(vfs.root, f"{place}/error_log").splitlines()
    assert first.endswith(f"trigger: error: {why}")
    assert command == "  Command: hist:keys=pid"
    assert caret.strip() == "^"
