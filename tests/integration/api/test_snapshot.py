# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.Kernel.snapshot() and restore().

This tests kpfs.backends.guest.snapshot.

That a restored kernel is as a fresh one is the affair of property/test_snapshot.py.
"""

import contextlib
import errno

import pytest

import kpfs

pytestmark = pytest.mark.guest


@pytest.fixture
def k():
    with kpfs.Kernel() as kernel:
        yield kernel


def test_it_goes_back(k):
    before = k.snapshot()
    k.write("tracing/kprobe_events", "p:a vfs_read")
    k.write("tracing/events/kprobes/a/enable", "1")
    within = k.snapshot()
    assert k.read("kprobes/list") != ""
    k.restore(before)
    assert k.read("kprobes/list") == ""
    assert not k.exists("tracing/events/kprobes")
    k.restore(within)  # and forward
    assert "vfs_read+0x0    [FTRACE]" in k.read("kprobes/list")
    assert "call" in k.disassemble("vfs_read").splitlines()[1]


def read_all(k, folder=""):
    """Read each file, but those that take records away, or whose readers wait."""
    for name in k.listdir(folder):
        path = f"{folder}/{name}".lstrip("/")
        with contextlib.suppress(NotADirectoryError):
            read_all(k, path)
            continue
        if "pipe" not in name and not path.startswith("machine"):
            with contextlib.suppress(OSError):
                k.read(path)


def test_it_goes_back_after_all_files_were_read(k):
    k.write("tracing/kprobe_events", "p:a do_sys_openat2")
    k.write("tracing/events/kprobes/a/enable", "1")
    read_all(k)
    then, text = k.snapshot(), k.read("tracing/trace")
    assert "a: (do_sys_openat2" in text
    k.write("tracing/trace", "")
    read_all(k)
    k.restore(then)
    assert k.read("tracing/trace") == text


def test_losses_are_those_of_then(k):
    """Each probe that was there has its count of them."""
    k.kprobe("vfs_read", print).unregister()
    then = k.snapshot()
    k.kprobe("vfs_write", print).unregister()
    k.restore(then)
    assert k.lost() == []


@pytest.mark.parametrize("begun", ["before", "after"])
@pytest.mark.parametrize("loaded", [False, True])
def test_coverage_goes_on_over_a_restore(k, begun, loaded):
    """Coverage is the user's, and counts in modules that come and go by that, too."""
    if begun == "before":
        k.cover()
    if loaded:
        k.insmod("kprobe_example")
    then = k.snapshot()
    if begun == "after":
        k.cover()
    counts = []
    for _ in range(3):
        if loaded:
            k.rmmod("kprobe_example")
        k.insmod("kprobe_example")
        k.restore(then)
        counts.append(k.coverage().functions()["kprobe_example_init"])
    before = int(loaded and begun == "before")
    assert counts == [before + 1, before + 2, before + 3]


def test_tasks_and_probes_of_then_can_be_used_again(k):
    hits: list[object] = []
    task, probe = k.task(pid=4242), k.kprobe("vfs_open", hits.append)
    snapshot = k.snapshot()
    task.exit()
    probe.unregister()
    late = k.task(pid=4243)
    with pytest.raises(ProcessLookupError):
        task.syscall("getpid")
    k.restore(snapshot)
    assert task.syscall("getpid") == 4242
    task.syscall("open", "/tmp/x", 0o102)
    assert len(hits) == 1  # that is the user's, and stays
    k.restore(snapshot)
    assert len(hits) == 1
    probe.unregister()
    assert k.read("kprobes/list") == ""
    assert late.syscall("getpid") == 4243  # it is forked anew


@pytest.mark.logs("kernel panic")
def test_dead_kernel_lives_again(k):
    snapshot = k.snapshot()

    def panic(regs):
        regs.di, regs.ip = k.symbol("init_uts_ns"), k.symbol("panic")
        return 1

    k.kprobe("vfs_read", panic)
    with pytest.raises(OSError, match="panic") as dead:
        k.read("version")
    assert dead.value.errno == errno.ESHUTDOWN
    k.restore(snapshot)
    assert k.read("kprobes/enabled") == "1\n"
    assert "panic" not in k.dmesg()


def test_what_cannot_be(k):
    with kpfs.Kernel() as other, pytest.raises(ValueError, match="another"):
        k.restore(other.snapshot())
    with kpfs.Kernel(quiet=False) as live, pytest.raises(ValueError, match="quiet"):
        live.snapshot()
    snapshot = k.snapshot()
    k.close()
    with pytest.raises(ValueError, match="closed"):
        k.restore(snapshot)
