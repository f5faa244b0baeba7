# SPDX-License-Identifier: GPL-2.0-or-later
"""gdb's protocol for a kernel in the process."""

import contextlib
import threading

import pytest

import kpfs
from tests import harness
from tests.unit.gdb.fakes import Gdb

KERNELS = [
    pytest.param(None, id="guest"),
    harness.on(harness.KERNEL, id="linux"),
]
FILE = "tracing/trace_clock"
RDI, RIP = 5, 16  # numbers in the target description


@pytest.fixture(params=KERNELS)
def kernel(request, made_kernels):
    with kpfs.Kernel(kernel=request.param, quiet=True) as kernel:
        yield kernel


@pytest.fixture
def place(kernel):
    return kernel.symbol("vfs_read")


@pytest.fixture
def gdb(kernel, place, tmp_path):
    path = str(tmp_path / "gdb")
    kernel.gdb(path)
    client = Gdb(path)
    client.begin()
    yield client
    client.close()


def reads(kernel):
    """Read a file in a thread; return it and its result, or what it is refused by."""
    found = []

    def read():
        try:
            found.append(kernel.read(FILE))
        except OSError as error:
            found.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    return thread, found


def test_a_thread_stands_at_a_breakpoint(kernel, place, gdb):
    assert gdb.ask(b"Z0,%x,1" % place) == b"OK"
    gdb.send(b"c")
    thread, found = reads(kernel)
    stopped = gdb.receive()
    assert stopped.startswith(b"T05")
    assert thread.is_alive()
    assert not found
    rip = bytes.fromhex(gdb.ask(b"p%x" % RIP).decode())
    assert int.from_bytes(rip, "little") == place
    assert gdb.ask(b"D") == b"OK"
    thread.join(20)
    assert found


def test_breakpoints_outlast_a_snapshot(kernel, place, gdb):
    gdb.send(b"c")
    kernel.read(FILE)
    before = kernel.snapshot()
    assert gdb.interrupt().startswith(b"T02")
    assert gdb.ask(b"Z0,%x,1" % place) == b"OK"
    gdb.send(b"c")
    kernel.restore(before)
    thread, found = reads(kernel)
    assert gdb.receive().startswith(b"T05")
    gdb.close()
    thread.join(20)
    assert found


def test_gdb_goes_back_to_a_snapshot(kernel, gdb):
    assert "is kept" in gdb.monitor("snapshot")
    gdb.send(b"c")
    kernel.write("tracing/kprobe_events", "p:one vfs_read\n")
    assert kernel.read("tracing/kprobe_events")
    gdb.interrupt()
    assert "what it was then" in gdb.monitor("restore")
    assert gdb.ask(b"D") == b"OK"
    assert not kernel.read("tracing/kprobe_events")


@pytest.mark.logs("kernel panic|the guest is dead")
def test_a_kernel_that_dies_can_be_looked_into_and_go_back(kernel, place, gdb):
    assert "is kept" in gdb.monitor("snapshot")
    assert gdb.ask(b"Z0,%x,1" % place) == b"OK"
    gdb.send(b"c")
    thread, found = reads(kernel)
    gdb.receive()
    for register, name in ((RDI, "linux_banner"), (RIP, "panic")):
        value = kernel.symbol(name).to_bytes(8, "little").hex().encode()
        assert gdb.ask(b"P%x=%s" % (register, value)) == b"OK"
    gdb.send(b"c")
    thread.join(20)
    assert "panic" in str(found[0])
    assert gdb.interrupt().startswith(b"T02")
    banner = b"Linux version".hex().encode()
    assert gdb.ask(b"m%x,d" % kernel.symbol("linux_banner")) == banner
    assert gdb.ask(b"m8,8") == b"E0e"
    assert "what it was then" in gdb.monitor("restore")
    assert gdb.ask(b"z0,%x,1" % place) == b"OK"
    gdb.send(b"c")
    assert kernel.read(FILE)


def test_a_kernel_that_is_not_quiet_does_not_go_back(tmp_path):
    with kpfs.Kernel(quiet=False) as kernel:
        kernel.gdb(str(tmp_path / "gdb"))
        with contextlib.closing(Gdb(str(tmp_path / "gdb"))) as gdb:
            gdb.begin()
            assert "only a quiet kernel" in gdb.monitor("snapshot")


def test_it_listens_once(kernel, gdb, tmp_path):
    with pytest.raises(ValueError, match="already"):
        kernel.gdb(str(tmp_path / "other"))
    gdb.ask(b"D")
