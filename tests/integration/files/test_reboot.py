# SPDX-License-Identifier: GPL-2.0-or-later
"""machine/reboot: a fresh guest in the place of one that lives or is dead."""

import os
import struct
import threading
import time
import weakref
from functools import partial

import pytest

from kpfs.backends.guest.booted import Booted
from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.backends.guest.tree import build
from kpfs.backends.guest.vfs import Vfs
from kpfs.base import abi
from kpfs.base.ktypes import Caller
from tests.there import code, stand_in

pytestmark = pytest.mark.guest

ME = Caller(os.getpid(), 0, 0)
REBOOT = "/machine/reboot"


class Mounted:
    """The part of a mount that deals with the kernel."""

    def __init__(self):
        self.booted = Booted(partial(GuestKernel, quiet=True), build)
        self.booted.follow(self.follow)
        self.follow(self.booted.kernel, self.booted.root)

    def follow(self, kernel, root):
        self.kernel, self.vfs = kernel, Vfs(kernel, root)

    def open(self, path, flags=os.O_RDONLY):
        return self.vfs.open(ME, path, flags)

    def read(self, path):
        opened = self.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return opened.vfs.read(ME, opened, 65536, 0)
        finally:
            opened.vfs.release(opened)

    def write(self, path, data):
        opened = self.open(path, os.O_WRONLY)
        try:
            return opened.vfs.write(ME, opened, data, 0)
        finally:
            opened.vfs.release(opened)

    def kill(self):
        with self.kernel.lock:
            guest = self.kernel.guest
            addr = guest.address_of("stop_this_cpu")
            assert code(guest.call, addr) == "ESHUTDOWN"


@pytest.fixture
def mounted():
    it = Mounted()
    yield it
    it.booted.stop()


def test_reboot_of_a_living_guest(mounted):
    old = mounted.kernel
    mounted.write("/tracing/kprobe_events", b"p vfs_read\n")
    with mounted.kernel.lock:
        mounted.vfs.root.children["tracing"].children["instances"].mkdir("one")
    assert mounted.write(REBOOT, b"1\n") == 2
    assert mounted.kernel is not old
    assert mounted.kernel.lock is old.lock
    assert mounted.read("/tracing/kprobe_events") == b""
    assert mounted.read("/kprobes/list") == b""
    instances = mounted.vfs.root.children["tracing"].children["instances"]
    assert list(instances.names()) == []
    assert mounted.kernel.syscalls.task(ME).pid == ME.pid


@pytest.mark.logs("kernel panic")
def test_reboot_of_a_dead_guest(mounted):
    mounted.kill()
    assert code(mounted.read, "/kprobes/list") == "ESHUTDOWN"
    assert mounted.read("/kmsg")
    assert code(mounted.write, "/kmsg", b"after the end") == "ESHUTDOWN"
    assert mounted.write(REBOOT, b"1\n") == 2
    assert mounted.read("/kprobes/list") == b""
    mounted.write("/tracing/kprobe_events", b"p vfs_read\n")


def test_reboot_without_a_task(mounted):
    """Pid 1 sleeps, and so nobody can be forked; the write needs none of them."""
    guest = mounted.kernel.guest
    with mounted.kernel.lock:
        init = guest.requests.init()
        init.blocked = True
        struct.pack_into("<Q", guest.memory.ram, init.req_at, abi.REQ_SYSCALL)
    assert code(mounted.read, "/kprobes/list") == "EBUSY"
    assert mounted.write(REBOOT, b"1\n") == 2
    assert mounted.read("/kprobes/list") == b""


def test_what_was_open(mounted):
    """Every operation on it fails with ESHUTDOWN."""
    both = mounted.open("/tracing/kprobe_events", os.O_RDWR)
    log = mounted.open("/kmsg")
    pipe = mounted.open("/tracing/trace_pipe")
    other = mounted.open(REBOOT, os.O_WRONLY)
    vfs = mounted.vfs
    mounted.write(REBOOT, b"1\n")
    for opened in (both, log, pipe, other):
        assert code(vfs.read, ME, opened, 100, 0) == "ESHUTDOWN"
        assert code(vfs.write, ME, opened, b"p vfs_read", 0) == "ESHUTDOWN"
        with mounted.kernel.lock:
            assert code(vfs.poll, opened) == "ESHUTDOWN"
        vfs.release(opened)
    assert mounted.read("/tracing/kprobe_events") == b""


def test_a_state_is_rebooted_into(mounted):
    """Exclusive files that were open then can be opened again; tasks start anew."""
    pipe = mounted.open("/tracing/trace_pipe")
    mounted.write("/tracing/kprobe_events", b"p:one vfs_read\n")
    with mounted.kernel.lock:
        task = mounted.kernel.syscalls.task(ME)
        go_back = mounted.booted.keep(mounted.vfs, Mounted)
    mounted.vfs.release(pipe)
    for _ in range(2):
        mounted.write("/tracing/kprobe_events", b"p:two vfs_read\n")
        with mounted.kernel.lock:
            go_back()
        assert code(pipe.vfs.read, ME, pipe, 100, 0) == "ESHUTDOWN"
        assert mounted.read("/tracing/kprobe_events") == b"p:kprobes/one vfs_read\n"
        with mounted.kernel.lock:
            assert task.gone
            assert mounted.kernel.syscalls.task(ME) is not task
        mounted.vfs.release(mounted.open("/tracing/trace_pipe"))
    mounted.write(REBOOT, b"1\n")
    with mounted.kernel.lock:
        assert code(go_back) == "ESTALE"


def test_a_blocked_reader_is_woken(mounted):
    pipe, found = mounted.open("/tracing/trace_pipe"), []
    vfs = mounted.vfs
    reader = threading.Thread(
        target=lambda: found.append(code(vfs.read, ME, pipe, 100, 0))
    )
    reader.start()
    time.sleep(0.05)
    assert found == []
    mounted.write(REBOOT, b"1\n")
    reader.join(5)
    assert found == ["ESHUTDOWN"]


def test_time_goes_on_for_the_new_one(mounted):
    mounted.kernel.background.start()
    mounted.write(REBOOT, b"1\n")
    kernel, done = mounted.kernel, threading.Event()
    kernel.background.start()
    with kernel.lock:
        kernel.guest.clock.call_later(1, done.set)
        kernel.background.guest_ran()
    assert done.wait(5)


def test_without_room(mounted, monkeypatch):
    """Nothing changes then."""
    mounted.write("/tracing/kprobe_events", b"p:kept vfs_read\n")

    def no_room(**_more):
        raise MemoryError

    monkeypatch.setattr(mounted.booted, "_boot", no_room)
    assert code(mounted.write, REBOOT, b"1\n") == "ENOMEM"
    assert b"kept" in mounted.read("/tracing/kprobe_events")


def test_nothing_is_left_of_the_old_one(mounted):
    gone, pages = [], []
    for _ in range(3):
        guest = mounted.kernel.guest
        gone.append(weakref.ref(guest))
        pages.append(stand_in(guest.memory.ram))
        del guest
        mounted.write(REBOOT, b"1\n")
        assert not any(pages[-1][: 32 << 20])
    # the last one goes with the next
    assert [ref() is None for ref in gone] == [True, True, False]


def test_callers_that_cannot_reboot(kernel):
    assert code(kernel.reboot) == "ENOTSUP"
