# SPDX-License-Identifier: GPL-2.0-or-later
"""tracing/instances over the real guest: made, used apart from the first, removed.

This also tests kpfs.engine.trace.array.array_events,
kpfs.engine.trace.array.trace_array, kpfs.engine.trace.array.trace_state,
kpfs.fs.files.array_file and
kpfs.fs.files.instances.
"""

import errno
import os

import pytest

from kpfs.engine.errors import KernelError
from kpfs.fs.files.tree import build
from kpfs.fs.node import walk
from kpfs.fs.vfs import Vfs
from tests.there import dir_at, shown
from tests.unit.fakes import ME

pytestmark = pytest.mark.guest


@pytest.fixture
def vfs(kernel):
    return Vfs(kernel, build(kernel))


def write(vfs, path, data):
    opened = vfs.open(ME, path, os.O_WRONLY)
    try:
        return vfs.write(ME, opened, data, 0)
    finally:
        vfs.release(opened)


def test_an_instance_records_by_itself(vfs):
    instances = dir_at(vfs.root, "/tracing/instances")
    instances.mkdir("i")
    assert list(instances.names()) == ["i"]
    assert walk(vfs.root, "/tracing/instances/i").mode == 0o40750
    write(vfs, "/tracing/kprobe_events", b"p:e __x64_sys_getppid\n")
    top, own = "/tracing/events/kprobes/e", "/tracing/instances/i/events/kprobes/e"
    write(vfs, f"{own}/enable", b"1")
    write(vfs, "/machine/syscall", b"getppid\n" * 3)
    assert shown(vfs.root, f"{top}/enable") == "0\n"
    assert shown(vfs.root, f"{own}/enable") == "1\n"
    assert shown(vfs.root, "/tracing/instances/i/trace").count(": e: ") == 3
    assert ": e: " not in shown(vfs.root, "/tracing/trace")
    with pytest.raises(KernelError) as info:
        vfs.open(ME, "/tracing/kprobe_events", os.O_WRONLY | os.O_TRUNC)
    assert info.value.errno == errno.EBUSY
    instances.rmdir("i")
    assert list(instances.names()) == []
    vfs.release(vfs.open(ME, "/tracing/kprobe_events", os.O_WRONLY | os.O_TRUNC))


def test_an_open_file_holds_its_instance(vfs):
    instances = dir_at(vfs.root, "/tracing/instances")
    instances.mkdir("i")
    opened = vfs.open(ME, "/tracing/instances/i/trace", os.O_RDONLY)
    with pytest.raises(KernelError) as info:
        instances.rmdir("i")
    assert info.value.errno == errno.EBUSY
    vfs.release(opened)
    instances.rmdir("i")
    with pytest.raises(KernelError) as info:
        instances.rmdir("i")
    assert info.value.errno in (errno.ENOENT, errno.ENODEV)


def test_a_file_that_describes_does_not_hold_its_instance(vfs):
    instances = dir_at(vfs.root, "/tracing/instances")
    for name in ("format", "id", "hist", "trigger"):
        instances.mkdir("i")
        path = f"/tracing/instances/i/events/sched/sched_switch/{name}"
        opened = vfs.open(ME, path, os.O_RDONLY)
        instances.rmdir("i")
        with pytest.raises(KernelError) as info:
            vfs.read(ME, opened, 100, 0)
        assert info.value.errno == errno.ENODEV
        vfs.release(opened)
