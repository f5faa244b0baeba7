# SPDX-License-Identifier: GPL-2.0-or-later
"""Any bytes into any writable file: an errno or success, and the kernel lives on."""

import os
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kpfs.backends.guest.files.tree import TABLE
from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.backends.guest.tree import build
from kpfs.backends.guest.vfs import Vfs
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import Caller
from kpfs.base.lock import Waiter
from kpfs.fs import machine
from tests.fuzz.fuzz import FLAGS, random_bytes
from tests.there import shown

pytestmark = pytest.mark.guest

WRITABLE = [f"/{path}" for path, mode, _ in TABLE if mode & 0o222 and mode < 0o10000]
WRITABLE += [f"/machine/{name}" for name, mode, _ in machine.FILES if mode & 0o222]
WRITABLE += ["/tracing/events/kprobes/a/enable", "/tracing/events/g/b/enable"]
ME = Caller(os.getpid(), 0, 0)

data = st.one_of(
    st.binary(max_size=100),
    st.integers(0, 1 << 32).map(lambda seed: random_bytes(random.Random(seed))),
)
write = st.tuples(st.sampled_from(WRITABLE), st.sampled_from(FLAGS), data)


@pytest.fixture(scope="module")
def mounted():
    kernel = GuestKernel(quiet=True)
    kernel.lock.wait = Waiter.interrupt  # nobody waits for long
    yield Vfs(kernel, build(kernel))
    kernel.stop()


def attempt(vfs, path, flags, data):
    """Open, write, read, close; only KernelError may come out, and is ignored."""
    try:
        opened = vfs.open(ME, path, flags)
    except KernelError:
        return
    try:
        taken = vfs.write(ME, opened, data, 0)
        assert 0 <= taken <= len(data)
        if flags & os.O_RDWR:
            assert len(vfs.read(ME, opened, 50, 0)) <= 50
    except KernelError:
        pass
    finally:
        vfs.release(opened)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(writes=st.lists(write, min_size=1, max_size=8))
def test_only_errnos_come_out(mounted, writes):
    root = mounted.root
    for path, flags, data in writes:
        attempt(mounted, path, flags, data)
    shown(root, "/tracing/trace")
    attempt(mounted, "/tracing/events/enable", os.O_WRONLY, b"0")
    attempt(mounted, "/tracing/dynamic_events", FLAGS[3], b"")
    assert shown(root, "/kprobes/list") == ""
