# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.Kernel(kernel=...): a distribution's kernel, by kpfs.api.real."""

import pytest

import kpfs
from tests import harness


def test_a_kernel_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(kpfs.SetupError, match="none"):
        kpfs.Kernel(kernel="6.1-none")


def test_what_cannot_be_chosen():
    with pytest.raises(ValueError, match="config"):
        kpfs.Kernel(kernel="6.1", config={"PREEMPT": True})


@pytest.fixture(scope="module")
def k():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(harness.kernels()))
        with kpfs.Kernel(kernel=harness.KERNEL) as kernel:
            yield kernel


@pytest.mark.kernel
def test_files(k):
    assert "Debian" in k.read("version")
    assert k.read("/proc/version") == k.read("version")
    k.write("tracing/kprobe_events", "p:e vfs_read count=%dx:u32\n")
    k.append("/sys/kernel/tracing/kprobe_events", "r:back vfs_write $retval")
    assert {"e", "back"} < set(k.listdir("tracing/events/kprobes"))
    assert k.exists("tracing/events/kprobes/e/format")
    assert not k.exists("tracing/events/kprobes/f")
    k.write("tracing/events/kprobes/e/enable", "1")
    task = k.task(comm="reader")
    assert task.read("kallsyms").count("\n") > 10_000
    k.write("tracing/events/kprobes/e/enable", "0")
    assert " reader-" in k.read("tracing/trace")
    k.write("tracing/kprobe_events", "")
    assert "Linux version" in k.dmesg()


@pytest.mark.kernel
def test_refusals(k):
    with pytest.raises(FileNotFoundError, match="tracing/kprobe_events"):
        k.append("tracing/kprobe_events", "p:bad no_such_function")
    with pytest.raises(FileNotFoundError):
        k.read("tracing/none")
    with pytest.raises(NotADirectoryError):
        k.listdir("version")
    task = k.task()
    task.exit()
    with pytest.raises(ProcessLookupError):
        task.read("version")


@pytest.mark.kernel
def test_instances_and_time(k):
    k.mkdir("tracing/instances/one")
    assert k.exists("tracing/instances/one/trace")
    k.rmdir("tracing/instances/one")
    begin = k.clock.now()
    k.clock.advance(2)
    assert k.clock.now() >= begin + 2


@pytest.mark.kernel
def test_what_is_our_own_kernels_alone(k):
    for use in (
        k.snapshot,
        k.trace,
        lambda: k.kprobe("vfs_read"),
        lambda: k.symbol("x"),
    ):
        with pytest.raises(NotImplementedError, match="our own kernel"):
            use()
