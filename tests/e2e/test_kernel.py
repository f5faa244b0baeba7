# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels of distributions: ``kpfs kernel``, and mounts and commands over them.

Tests kpfs.backends.linux.boot, kpfs.commands.kernel, kpfs.linux.running.files,
kpfs.linux.make.x86, kpfs.backends.linux.mirror.
"""

import json
import os
import re
import signal
import stat
import sys
import time

import pytest

from kpfs.linux.running.saved_kernel import FUNCTIONS
from kpfs.linux.store.image import META
from tests import harness

pytestmark = [pytest.mark.fuse, pytest.mark.kernel]

KERNEL = harness.KERNEL
TRACE = """
cd /sys/kernel/tracing
echo 'p:e do_sys_openat2 file=+0(%si):ustring' >kprobe_events
echo 1 >events/kprobes/e/enable
cat /etc/hostname >/dev/null
echo 0 >events/kprobes/e/enable
grep hostname trace
"""


def run(kpfs, *command, **options):
    return kpfs("run", "--kernel", KERNEL, "--", *command, **options)


def test_a_commands_hits_are_seen_by_its_name(kpfs):
    done = run(kpfs, "sh", "-c", TRACE)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r' cat-\d+ +\[000\] .* file="/etc/hostname"', done.stdout)


def test_a_mount_shows_the_guests_files(kpfs):
    m = kpfs.mount("--kernel", KERNEL)
    release = re.search(r"Linux version (\S+)", (m / "version").read_text())
    assert release
    assert release[1].startswith("6.1.")
    assert (m / "kprobes" / "list").read_text() == ""
    (m / "tracing" / "kprobe_events").write_text("p:e vfs_read\n")
    assert (m / "tracing" / "kprobe_events").read_text() == "p:kprobes/e vfs_read\n"
    with pytest.raises(OSError, match="Invalid argument"):
        (m / "tracing" / "kprobe_events").write_text("p:e\n")
    (m / "tracing" / "instances" / "i").mkdir()
    assert "trace" in os.listdir(m / "tracing" / "instances" / "i")
    (m / "tracing" / "instances" / "i").rmdir()


def test_an_errno_that_fuse_does_not_take(kpfs):
    """ENOTSUPP of a kernel without a watchdog: what echo is told may not be EINTR."""
    m = kpfs.mount("--kernel", KERNEL)
    with pytest.raises(OSError, match="Operation not supported"):
        (m / "sys" / "kernel" / "nmi_watchdog").write_text("1\n")
    code = "import os; os.write(os.open('/proc/sys/kernel/nmi_watchdog', 1), b'1')"
    done = run(kpfs, sys.executable, "-ISc", code)
    assert "[Errno 524]" in done.stderr


def test_new_and_removed_events_are_seen_at_once(kpfs, tmp_path):
    """Linux keeps what it was told of all else."""
    m = kpfs.mount("--kernel", KERNEL)
    tracing = m / "tracing"
    events = tracing / "events"
    for place in (events / "sched" / "sched_switch" / "enable", tracing / "instances"):
        place.stat()
    links, enable = events.stat().st_nlink, events / "kprobes" / "e" / "enable"
    for _ in range(2):
        assert not enable.exists()
        (tracing / "kprobe_events").write_text("p:e vfs_read\n")
        assert enable.read_text() == "0\n"
        assert enable.exists()
        assert events.stat().st_nlink == links + 1
        (tracing / "instances" / "i").mkdir()
        assert (tracing / "instances" / "i" / "trace").exists()
        (tracing / "instances" / "i").rmdir()
        assert not (tracing / "instances" / "i").exists()
        (tracing / "kprobe_events").write_text("")
        assert events.stat().st_nlink == links
    before = (tracing / "trace").stat()
    assert (before.st_size, stat.S_IMODE(before.st_mode)) == (0, 0o640)
    (tracing / "trace").chmod(0o600)
    assert stat.S_IMODE((tracing / "trace").stat().st_mode) == 0o600
    with (
        (tracing / "trace").open("rb", 0) as file,
        (tmp_path / "copy").open("wb") as copy,
        # which would be told that there is nothing, but for the size of an open file
        pytest.raises(OSError, match="Invalid argument"),
    ):
        os.sendfile(copy.fileno(), file.fileno(), None, 4096)
    (m / "machine" / "reboot").write_text("1")
    assert stat.S_IMODE((tracing / "trace").stat().st_mode) == 0o640


@pytest.mark.parametrize("option", [(), ("--host-uname",)])
def test_uname_is_the_guests(kpfs, option):
    words = "uname -sn -rv -m; cat /proc/sys/kernel/hostname /proc/sys/kernel/osrelease"
    done = kpfs("run", "--kernel", KERNEL, *option, "--", "sh", "-c", words)
    names, node, release = done.stdout.splitlines()
    host = os.uname()
    if option:
        assert names == " ".join(host)
    else:
        assert names.startswith(f"Linux {host.nodename} 6.1.")
        assert "Debian" in names
    assert node == host.nodename
    assert release in names.split()


def test_a_signal_ends_a_command_that_waits(kpfs):
    script = "echo there; exec cat /sys/kernel/tracing/trace_pipe"
    words = "run", "--kernel", KERNEL, "--", "sh", "-c", script
    with kpfs.started(*words) as process:
        assert process.stdout.readline() == b"there\n"
        time.sleep(0.5)
        assert process.poll() is None
        process.terminate()
        assert process.wait(20) == 128 + signal.SIGTERM


@pytest.mark.long
def test_many_that_wait_hold_nobody_up(kpfs):
    """Each of them takes a thread of the mount."""
    script = """
    cd /sys/kernel/tracing/instances
    for i in 1 2 3 4 5 6 7 8 9 10 11 12; do mkdir i$i; cat i$i/trace_pipe & done
    sleep 1; cat $KPFS/version; kill $(jobs -p)
    """
    done = run(kpfs, "bash", "-c", script)
    assert done.stdout.startswith("Linux version 6.1.")


def test_umount_removes_the_mount_of_a_killed_daemon(kpfs):
    m = kpfs.mount("--kernel", KERNEL)
    harness.kill(harness.daemon_of(m), signal.SIGKILL)
    done = kpfs("umount", m)
    assert (done.returncode, done.stderr) == (0, "")
    assert not harness.is_mounted(m)


def test_a_panic_is_told(kpfs):
    kpfs.announce("the guest is dead")
    script = "cd $KPFS; echo c >proc/sysrq-trigger; cat version kprobes/list"
    done = run(kpfs, "sh", "-c", script)
    assert done.stderr.count("Cannot send after transport endpoint shutdown") == 2
    assert kpfs.log.read_text().count("kernel panic: sysrq triggered crash") == 1


@pytest.mark.parametrize("command", ["mount", "run"])
def test_no_such_kernel(kpfs, command):
    target = kpfs.scratch / "m"
    target.mkdir()
    words = [target] if command == "mount" else ["--", "true"]
    done = kpfs(command, "--kernel", "none", *words)
    assert done.returncode != 0
    assert len(done.stderr.splitlines()) == 1
    told = "no kernel none; those that are there: "
    assert told in done.stderr
    assert KERNEL in done.stderr.partition(told)[2].strip().split(", ")


def test_kernels_are_listed_and_shown(kpfs):
    listed = kpfs("kernel", "list").stdout
    assert re.search(rf"^{KERNEL} +6\.1\.\S+ +512 MiB$", listed, re.M)
    shown = kpfs("kernel", "show", KERNEL).stdout
    assert re.search(r"^digest +[0-9a-f]{64}$", shown, re.M)
    assert "cpus       1\n" in shown
    assert "CONFIG_KPROBES=y\n" in shown
    assert re.search(r"^BPF map +HASH, ARRAY,", shown, re.M)
    assert re.search(
        rf"^BPF helper +\d+, see kpfs kernel features {KERNEL}$", shown, re.M
    )
    missing = kpfs("kernel", "rm", "none")
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)


@pytest.mark.long
def test_exported_and_imported(kpfs, tmp_path, monkeypatch):
    file = tmp_path / "mine.kpfs"
    assert kpfs("kernel", "export", KERNEL, file).returncode == 0
    digest = re.findall(r"digest .*", kpfs("kernel", "show", KERNEL).stdout)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert kpfs("kernel", "import", file).stdout.startswith("mine: Linux 6.1.")
    assert re.findall(r"digest .*", kpfs("kernel", "show", "mine").stdout) == digest
    done = kpfs("run", "--kernel", "mine", "--", "cat", "/proc/version")
    assert done.stdout.startswith("Linux version 6.1.")
    os.truncate(file, 1000)
    for words in (("import", file), ("import", "/none"), ("export", "mine", "/none/f")):
        done = kpfs("kernel", *words)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert kpfs("kernel", "list").stdout.count("\n") == 1
    for words, left in ((("mine", "none"), 1), (("mine", "mine"), 0)):
        done = kpfs("kernel", "rm", *words)
        assert done.returncode == (2 if left else 0)
        assert kpfs("kernel", "list").stdout.startswith("mine") == bool(left)


@pytest.fixture
def own_kernel(tmp_path, monkeypatch):
    """The kernel, to be made anew: the archive may have a newer one by now."""
    harness.own_kernels(tmp_path / "own", {KERNEL: KERNEL})
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "own"))


def test_what_is_there_already_is_not_made_again(kpfs, own_kernel):
    kpfs("kernel", "make", KERNEL)
    done = kpfs("kernel", "make", KERNEL)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"is there already; 'kpfs kernel rm {KERNEL}'" in done.stdout


def test_a_cache_spares_the_boot(kpfs, own_kernel, tmp_path, monkeypatch):
    """One job of a CI keeps a kernel, which another one's matrix uses."""
    cache = f"--cache={tmp_path / 'cache'}"
    assert kpfs("kernel", "make", KERNEL, cache).returncode == 0
    (kept,) = (tmp_path / "cache").iterdir()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("KPFS_WARM", "0")
    kernels = f"--kernels=none,{KERNEL}"  # the first one is not of this job
    done = kpfs("matrix", kernels, "--shard=2/2", "--make", cache, "--", "true")
    assert done.returncode == 0
    assert re.fullmatch(rf"{KERNEL}: Linux 6\.1\S+, from {tmp_path}\S+\n", done.stderr)
    assert list((tmp_path / "cache").iterdir()) == [kept]
    done = kpfs("kernel", "make", "mine", "--deb", "/none", cache)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "--cache keeps kernels that a distribution offers" in done.stderr


def test_files_that_are_no_kernel_are_refused(kpfs, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"no kernel")
    for option, why in (
        ("--deb", "neither a .deb nor an .rpm"),
        ("--vmlinuz", "no kernel"),
    ):
        done = kpfs("kernel", "make", "mine", option, file)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert why in done.stderr


@pytest.mark.slow
def test_made_twice_it_is_the_same(kpfs, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    digests, kernels = set(), tmp_path / "kpfs/kernels"
    older = kernels / f"{KERNEL}+a=1"
    for already in ("", older.name):
        if already:
            meta = json.loads((kernels / KERNEL / META).read_text())
            text = json.dumps({**meta, "append": "a=1", "origin": "older.deb"})
        kpfs("kernel", "rm", KERNEL)
        if already:
            older.mkdir()
            (older / META).write_text(text)
        done = kpfs("kernel", "make", KERNEL, timeout=300)
        assert done.returncode == 0
        assert (f"{already}: removed, as it was of the" in done.stdout) == bool(already)
        shown = kpfs("kernel", "show", KERNEL).stdout
        digests.add(re.findall(r"digest +(\S+)", shown)[0])
        assert (kernels / KERNEL / FUNCTIONS).exists()
    assert len(digests) == 1
    assert not older.exists()
