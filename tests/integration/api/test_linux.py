# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.Kernel(kernel=...): a Linux kernel in the process.

This tests kpfs.session.session, kpfs.backends.linux.task,
kpfs.backends.linux.session, kpfs.backends.linux.records, kpfs.backends.linux.probes,
kpfs.backends.linux.access, kpfs.linux.running.frozen, kpfs.linux.running.functions,
kpfs.linux.memory.rings and kpfs.linux.memory.trace_files.
"""

import errno
import os
import re

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
    assert round(k.clock.now() - begin, 6) >= 2


@pytest.mark.kernel
def test_machine(k):
    assert k.read("machine/text/vfs_read") == k.disassemble("vfs_read")
    assert "syscall" in k.listdir("machine")
    assert k.exists("machine/stats")
    assert not k.exists("machine/none")
    with pytest.raises(FileNotFoundError):
        k.read("machine/mounts")
    with pytest.raises(FileNotFoundError):
        k.disassemble("no_such_function")
    with pytest.raises(OSError, match="Invalid argument"):
        k.read("machine/reboot")


@pytest.mark.kernel
def test_system_calls(k):
    task = k.task(pid=4242, comm="caller")
    assert task.syscall("getpid") == 4242
    fd = task.syscall("openat", -100, "/proc/version", os.O_RDONLY)
    count = task.syscall("read", fd, task.buffer, 100)
    assert k.read_memory(task.buffer, count).decode() == k.read("version")[:count]
    with pytest.raises(OSError, match="Bad file descriptor"):
        task.syscall("close", 99)
    with pytest.raises(OSError, match="not implemented"):
        task.syscall("nothing")
    with pytest.raises(PermissionError):
        task.syscall("execve", "/init", 0, 0)


@pytest.mark.kernel
def test_what_it_is_like(k):
    banner = k.symbol("linux_banner")
    assert k.read_string(banner) == k.read("version")
    assert k.read_string(banner, 5) == "Linux"
    with pytest.raises(OSError, match="no memory at 0x10") as caught:
        k.read_memory(0x10, 4)
    assert caught.value.errno == errno.EFAULT
    with pytest.raises(FileNotFoundError):
        k.symbol("no_such_symbol")


@pytest.mark.kernel
def test_explain_does_not_see_the_probes(k):
    fresh = k.explain("vfs_read")
    assert fresh.accepted
    assert fresh.ftrace
    k.write("tracing/kprobe_events", "p:e vfs_read+0x5\np:f vfs_read")
    for event in "ef":
        k.write(f"tracing/events/kprobes/{event}/enable", "1")
    assert "+0x5" in k.read("kprobes/list")
    assert k.explain("vfs_read") == fresh
    assert not k.explain("int3_magic").accepted
    for event in "ef":
        k.write(f"tracing/events/kprobes/{event}/enable", "0")
    k.write("tracing/kprobe_events", "")


@pytest.mark.kernel
def test_modules(k, tmp_path):
    k.insmod("nf_conntrack")  # it needs others
    loaded = k.read("modules")
    assert loaded.startswith("nf_conntrack ")
    assert "nf_defrag_ipv4 " in loaded
    with pytest.raises(FileExistsError):
        k.insmod("nf_conntrack")
    with pytest.raises(BlockingIOError):
        k.rmmod("nf_defrag_ipv4")
    k.rmmod("nf_conntrack")
    assert "nf_conntrack " not in k.read("modules")
    with pytest.raises(FileNotFoundError, match="no module"):
        k.insmod("no_such_module")
    broken = tmp_path / "broken.ko"
    broken.write_bytes(b"no ELF")
    with pytest.raises(OSError, match="Exec format error"):
        k.insmod(broken)


def use_it(k):
    """Change most of what there is: the trace, byte for byte."""
    k.insmod("crc7")
    k.write("tracing/events/kprobes/opened/enable", "1")
    k.append("tracing/kprobe_events", "r:closed filp_close $retval")
    k.write("tracing/events/kprobes/closed/enable", "1")
    task = k.task(comm="new")
    fd = task.syscall("openat", -100, "/proc/version", os.O_RDONLY)
    task.syscall("read", fd, task.buffer, 10)
    task.syscall("close", fd)
    k.clock.advance(2)
    return k.read("tracing/trace")


@pytest.fixture
def fresh():
    with kpfs.Kernel(kernel=harness.KERNEL) as kernel:
        yield kernel


@pytest.mark.kernel
def test_a_snapshot_is_gone_back_to_any_number_of_times(fresh):
    k = fresh
    k.write("tracing/kprobe_events", "p:opened do_sys_openat2 file=+0(%si):ustring")
    old = k.task(comm="old")
    buffer = old.buffer
    taken = k.snapshot()
    k.restore(taken)
    shown = k.read("kprobes/list"), k.read("tracing/trace"), k.clock.now()
    k.restore(taken)
    first = use_it(k)
    assert "new-" in first
    new = k.task(comm="later")
    assert new.buffer
    for _ in range(2):
        k.restore(taken)
        now = k.read("kprobes/list"), k.read("tracing/trace"), k.clock.now()
        assert now == shown
        assert k.read("modules") == ""
        assert old.buffer == buffer
        assert old.syscall("getpid") == old.pid
        with pytest.raises(ProcessLookupError):
            new.syscall("getpid")
        k.restore(taken)
        assert use_it(k) == first


@pytest.mark.kernel
def test_coverage_of_the_kernel_goes_on_over_a_restore(fresh):
    taken = fresh.snapshot()
    fresh.cover(kernel=True)
    counts = []
    for _ in range(3):
        fresh.read("version")
        fresh.restore(taken)
        counts.append(fresh.coverage().functions()["version_proc_show"])
    assert counts == [1, 2, 3]


@pytest.mark.kernel
def test_a_snapshot_revives_a_dead_kernel(fresh, caplog):
    taken = fresh.snapshot()
    with pytest.raises(OSError, match="panic"):
        fresh.write("/proc/sysrq-trigger", "c")
    with pytest.raises(OSError, match="panic"):
        fresh.snapshot()
    fresh.restore(taken)
    assert fresh.read("version").startswith("Linux version")
    assert caplog.text.count("the guest is dead") == 1
    caplog.clear()


@pytest.mark.kernel
def test_kernels_without_snapshots(fresh):
    with (
        kpfs.Kernel(kernel=harness.KERNEL, quiet=False) as noisy,
        pytest.raises(ValueError, match="quiet"),
    ):
        noisy.snapshot()
    with (
        kpfs.Kernel(kernel=harness.KERNEL) as other,
        pytest.raises(ValueError, match="another kernel"),
    ):
        fresh.restore(other.snapshot())


LINE = re.compile(r"\s*(.*)-(\d+)\s+\[(\d+)\] (\S+)\s+([\d.]+): (\w+): ")


@pytest.mark.kernel
@pytest.mark.parametrize("turns", [2, 300])  # 300: the oldest are overwritten
def test_the_records_of_the_trace(fresh, turns):
    k = fresh
    k.write("tracing/buffer_size_kb", "8")
    k.write("tracing/kprobe_events", "p:opened do_sys_openat2 file=+0(%si):ustring")
    k.append("tracing/kprobe_events", "r:closed filp_close $retval")
    names = "kprobes/opened", "kprobes/closed", "sched/sched_switch"
    for name in names:
        k.write(f"tracing/events/{name}/enable", "1")
    task = k.task(pid=4242, comm="sh")
    for _ in range(turns):
        fd = task.syscall("openat", -100, "/proc/version", os.O_RDONLY)
        task.syscall("close", fd)
    k.write("tracing/tracing_on", "0")
    records = list(k.trace())
    assert list(k.trace()) == records  # none is consumed
    lines = [x for x in k.read("tracing/trace").splitlines() if not x.startswith("#")]
    lines = [line for line in lines if "LOST" not in line]
    assert len(records) == len(lines) > 3
    for record, line in zip(records, lines, strict=True):
        found = LINE.match(line)
        assert found
        us = (record.timestamp + 500) // 1000
        assert found.groups() == (
            *(record.comm, str(record.pid), f"{record.cpu:03d}", record.flags),
            *(f"{us // 10**6}.{us % 10**6:06d}", record.event),
        )
        assert f"{record.group}/{record.event}" in names
    ours = [record for record in records if record.pid == 4242]
    assert {"/proc/version"} == {r["file"] for r in ours if r.event == "opened"}
    assert {0} == {
        r["ret1"] if "ret1" in r.fields else r["arg1"]
        for r in ours
        if r.event == "closed"
    }


@pytest.mark.kernel
def test_the_records_of_an_instance(fresh):
    fresh.mkdir("tracing/instances/one")
    assert list(fresh.trace("one")) == []
    fresh.write("tracing/instances/one/trace_marker", "hello")
    (record,) = fresh.trace("one")
    assert (record.group, record.event) == ("ftrace", "print")
    assert record["buf"] == "hello\n"
    assert list(fresh.trace()) == []
    with pytest.raises(FileNotFoundError):
        fresh.trace("two")


@pytest.mark.kernel
def test_records_that_were_consumed_are_gone(fresh):
    for text in ("one", "two", "three"):
        fresh.write("tracing/trace_marker", text)
    task = fresh.task()
    fd = task.syscall("openat", -100, "/sys/kernel/tracing/trace_pipe", os.O_NONBLOCK)
    task.syscall("read", fd, task.buffer, 80)  # there is room for the first alone
    shown = fresh.read("tracing/trace").count("tracing_mark_write:")
    assert 0 <= shown < 3
    assert len(list(fresh.trace())) == shown


@pytest.mark.kernel
@pytest.mark.parametrize("hits", [3, 2000])  # 2000: more than a buffer of seq_file
def test_file_that_grows_by_reading_ends(fresh, hits):
    fresh.write("tracing/kprobe_events", "p:e vfs_read")
    fresh.write("tracing/events/kprobes/e/enable", "1")
    task = fresh.task(comm="other")
    fd = task.syscall("openat", -100, "/proc/version", os.O_RDONLY)
    for _ in range(hits):
        task.syscall("read", fd, task.buffer, 1)
    then = fresh.snapshot()
    for name in ("trace", "per_cpu/cpu0/trace", "trace_pipe"):
        there = len(list(fresh.trace()))
        text = fresh.read_bytes(f"tracing/{name}")
        assert text.count(b" other-") == hits
        assert there <= text.count(b": e: (vfs_read") < there + 200
        fresh.restore(then)
    assert 0 < len(fresh.read_bytes("tracing/per_cpu/cpu0/trace_pipe_raw")) < 100 * 4096


# ---- handlers
@pytest.fixture
def task(fresh):
    """A task that has a file open as descriptor 3."""
    made = fresh.task()
    flags = os.O_RDWR | os.O_CREAT
    assert made.syscall("openat", -100, "/tmp/f", flags, 0o600) == 3
    return made


def listed(k):
    return [line.split()[1:] for line in k.read("kprobes/list").splitlines()]


@pytest.mark.kernel
def test_probe_that_the_kernel_cannot_remove(fresh, task):
    """A post handler that comes later to an entry has the kernel lose its way."""
    seen = []
    first = fresh.kprobe("vfs_write", lambda _r: seen.append(1))
    fresh.kprobe("vfs_write", post=lambda _r: None).unregister()
    with pytest.raises(OSError, match="No such file"):
        first.disable()
    with pytest.raises(OSError, match="see dmesg"):
        first.unregister()
    first.unregister()
    assert "disarm kprobe-ftrace" in fresh.dmesg()
    task.syscall("write", 3, "abc", 3)
    assert seen == []


@pytest.mark.long
@pytest.mark.kernel
def test_many_handlers(fresh):
    """More than a page of the kernel has room for; their places are used again."""
    hits = []
    for _ in range(2):
        places = [*range(300)]
        probes = [
            fresh.kprobe("vfs_open", lambda _r, n=n: hits.append(n)) for n in places
        ]
        fresh.exists("/nothing")
        fresh.read("version")
        assert sorted(hits) == places
        for probe in probes:
            probe.unregister()
        hits.clear()
        fresh.read("version")
        assert not hits


@pytest.mark.kernel
def test_probes_and_snapshots(fresh):
    hits = []
    first = fresh.kprobe("vfs_open", lambda _r: hits.append("first"))
    then = fresh.snapshot()
    first.unregister()
    second = fresh.kprobe("vfs_open", lambda _r: hits.append("second"))
    fresh.read("version")
    fresh.restore(then)
    second.unregister()  # it has never been
    fresh.read("version")
    assert hits == ["second", "first"]
    first.unregister()
    assert listed(fresh) == []
    fresh.restore(then)
    assert listed(fresh) == [["k", "vfs_open+0x0", "[FTRACE]"]]
    fresh.write("machine/reboot", "1")
    first.unregister()
    assert first.nmissed == 0


@pytest.mark.kernel
def test_memory_is_changed(fresh):
    place = fresh.symbol("linux_banner")
    fresh.write_memory(place, b"HELLO")
    assert fresh.read_string(place).startswith("HELLO version")
    for address in (8, place + (1 << 40)):
        with pytest.raises(OSError, match="no memory at"):
            fresh.write_memory(address, b"x")
    task = fresh.task()
    code = fresh.symbol("__x64_sys_getpid")
    was = fresh.read_memory(code, 6)
    assert task.syscall("getpid") == task.pid
    fresh.write_memory(code, b"\xb8\x2a\0\0\0\xc3")  # mov $42, %eax; ret
    assert task.syscall("getpid") == 42
    fresh.write_memory(code, was)
    assert task.syscall("getpid") == task.pid
