# SPDX-License-Identifier: GPL-2.0-or-later
"""machine/ over a kernel of a distribution, and what becomes of one that dies.

Tests kpfs.fs.fuse.linux_machine, kpfs.linux.board.stops, kpfs.linux.memory.calls,
kpfs.linux.memory.dmesg, kpfs.linux.memory.memory.
"""

import errno
import os
import re

import pytest

from tests import harness

pytestmark = [pytest.mark.fuse, pytest.mark.kernel]

KERNEL = harness.KERNEL
SHUT_DOWN = os.strerror(errno.ESHUTDOWN)


@pytest.fixture(autouse=True)
def data(monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(harness.kernels()))


@pytest.fixture
def m(kpfs):
    return kpfs.mount("--kernel", KERNEL)


def probe(m, place):
    definition = f"p:e{place.replace('+', '_')} {place}\n"
    fd = os.open(m / "tracing" / "kprobe_events", os.O_WRONLY | os.O_APPEND)
    os.write(fd, definition.encode())
    os.close(fd)
    (m / "tracing" / "events" / "kprobes" / "enable").write_text("1")


def test_the_directory(m):
    assert "machine" in os.listdir(m)
    files = {"mounts", "reboot", "stats", "syscall", "text"}
    assert set(os.listdir(m / "machine")) == files
    with pytest.raises(FileNotFoundError):
        (m / "machine" / "none").read_text()
    with pytest.raises(PermissionError):
        (m / "machine" / "new").mkdir()


def test_text_shows_what_probes_put_in(m):
    text = m / "machine" / "text" / "vfs_read"
    before = text.read_text()
    assert before.startswith("vfs_read:\n  ffffffff")
    assert "was:" not in before
    probe(m, "vfs_read")
    probe(m, "vfs_read+5")
    lines = text.read_text().splitlines()
    assert re.search(r" e8 .* call .* # call, was: nop dword", lines[1])
    assert re.search(r" cc .* int3 .* # breakpoint, was: push", lines[2])
    assert lines[3:] == before.splitlines()[3:]
    assert "vfs_read" in os.listdir(m / "machine" / "text")
    for name in ("none", "jiffies"):
        assert not (m / "machine" / "text" / name).exists()


def test_system_calls_of_the_writer(m):
    probe(m, "__x64_sys_getppid")
    syscall = m / "machine" / "syscall"
    syscall.write_text('getppid\nopenat -100 "/" 0\nuname buf\n')
    profile = (m / "tracing" / "kprobe_profile").read_text()
    assert re.match(r"\s+e__x64_sys_getppid +1 ", profile)
    for line, why in (
        ("openat -100 /none 0", errno.ENOENT),
        ("fork", errno.EPERM),
        ("none", errno.ENOSYS),
        ("getppid 1 2 3 4 5 6 7", errno.EINVAL),
    ):
        with pytest.raises(OSError, match=os.strerror(why)):
            syscall.write_text(line)


def test_stats_count(m):
    def count():
        rows = (m / "machine" / "stats").read_text().split("\n")[:-1]
        return {name: int(value) for name, value in map(str.split, rows)}

    before = count()
    (m / "version").read_text()
    assert count()["syscalls"] > before["syscalls"]


def test_reboot_takes_all_probes_away(m):
    probe(m, "vfs_read")
    with open(m / "version") as old:
        (m / "machine" / "reboot").write_text("1")
        with pytest.raises(OSError, match=SHUT_DOWN):
            old.read()
    assert (m / "kprobes" / "list").read_text() == ""


def test_a_dead_guest_tells_why_and_starts_anew(kpfs, m):
    kpfs.announce("the guest is dead")
    with pytest.raises(OSError, match=SHUT_DOWN):
        (m / "proc" / "sysrq-trigger").write_text("c")
    for name in ("version", "kprobes/list", "tracing/trace"):
        with pytest.raises(OSError, match=SHUT_DOWN):
            (m / name).read_text()
    assert "sysrq: Trigger a crash" in (m / "kmsg").read_text().splitlines()[-1]
    log = kpfs.log.read_text()
    assert log.count("the guest is dead: kernel panic: sysrq triggered crash") == 1
    assert "] sysrq: Trigger a crash" in log
    (m / "machine" / "reboot").write_text("1")
    assert (m / "version").read_text().startswith("Linux version")


def test_reboot_under_run(kpfs):
    script = """
cd $KPFS
echo 'p:e do_sys_openat2 file=+0(%si):ustring' >/sys/kernel/tracing/kprobe_events
echo 1 >machine/reboot
cat kprobes/list
echo 'p:e do_sys_openat2 file=+0(%si):ustring' >/sys/kernel/tracing/kprobe_events
echo 1 >/sys/kernel/tracing/events/kprobes/e/enable
cat /etc/hostname >/dev/null
echo 0 >/sys/kernel/tracing/events/kprobes/e/enable
grep -c hostname /sys/kernel/tracing/trace
grep '/sys/kernel/tracing tracefs' /proc/mounts >/dev/null || cat /proc/mounts
"""
    done = kpfs("run", "--kernel", KERNEL, "--", "sh", "-c", script)
    assert (done.stdout, done.stderr) == ("1\n", "")
