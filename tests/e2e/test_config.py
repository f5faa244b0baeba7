# SPDX-License-Identifier: GPL-2.0-or-later
"""``--config`` of the commands: kernels that lack something."""

import mmap
import shutil
import subprocess
import time

import pytest

from tests import harness
from tests.harness import ROOT

pytestmark = [pytest.mark.fuse, pytest.mark.guest]


def define(mount, *places):
    """Enabled events there; the list."""
    lines = [f"p:e{number} {place}\n" for number, place in enumerate(places)]
    (mount / "tracing/kprobe_events").write_text("".join(lines))
    (mount / "tracing/events/kprobes/enable").write_text("1")
    return (mount / "kprobes/list").read_text()


def hits(mount):
    """Make one system call, then return the hits of each event."""
    (mount / "machine/syscall").write_text("getppid")
    profile = (mount / "tracing/kprobe_profile").read_text()
    return [int(line.split()[1]) for line in profile.splitlines()]


def test_without_optprobes(kpfs):
    mount = kpfs.mount("--config", "OPTPROBES=n")
    assert list((mount / "sys/debug").iterdir()) == []
    define(mount, "vfs_read+5", "vfs_read")
    time.sleep(0.3)
    shown = (mount / "kprobes/list").read_text()
    assert "[OPTIMIZED]" not in shown
    assert "vfs_read+0x0    [FTRACE]" in shown
    assert all(hits(mount))


def test_without_ftrace(kpfs):
    mount = kpfs.mount("--config", "KPROBES_ON_FTRACE=n")
    assert "[FTRACE]" not in define(mount, "vfs_read", "vfs_write")
    optimized = "vfs_read+0x0    [OPTIMIZED]"
    shown = (mount / "kprobes/list").read_text
    harness.until(lambda: optimized in shown(), "it does not become a jump")
    assert "[FTRACE]" not in shown()
    first, then = hits(mount), hits(mount)
    assert then[0] > first[0] > 0
    assert (mount / "tracing/available_tracers").read_text() == "nop\n"
    assert not (mount / "tracing/available_filter_functions").exists()


def test_without_kprobe_events(kpfs):
    mount = kpfs.mount("--config", "KPROBE_EVENTS=n")
    for name in ("kprobe_events", "kprobe_profile"):
        assert not (mount / "tracing" / name).exists()
    others = mount / "tracing/dynamic_events"
    with pytest.raises(OSError, match="Invalid argument"):
        others.write_text("p:e vfs_read\n")
    others.write_text("s:synthetic/e u64 value\n")
    assert others.read_text() == "s:synthetic/e\tu64 value\n"
    assert (mount / "kprobes/list").read_text() == ""
    assert (mount / "kprobes/enabled").read_text() == "1\n"


@pytest.mark.skipif(not shutil.which("addr2line"), reason="no addr2line")
def test_line_numbers(kpfs):
    """The image of the mount has them, and binutils can map it."""
    for value in "ny":
        mount = kpfs.mount("--config", f"DEBUG_INFO={value}")
        image = mount / "machine/vmlinux"
        assert image.stat().st_size == len(image.read_bytes())
        for line in (mount / "kallsyms").read_text().splitlines():
            address, _, name = line.split()[:3]
            if name == "vfs_read":
                break
        shown = harness.run("addr2line", "-e", image, address).stdout
        source = ROOT / "guest/src/fs/read_write.c"
        assert shown.startswith(f"{source}:") == (value == "y")
        with image.open("rb") as file:
            fd, flags = file.fileno(), mmap.MAP_PRIVATE
            with mmap.mmap(fd, 0, flags, mmap.PROT_READ) as mapped:
                assert mapped[:] == image.read_bytes()
        names = subprocess.run(["nm", image], capture_output=True, text=True)
        assert f"{address} T vfs_read\n" in names.stdout


def test_run_takes_several(kpfs):
    done = kpfs(
        *("run", "--config", "OPTPROBES=n", "--config=KPROBE_EVENTS=n", "--", "ls"),
        *("/proc/sys/debug", "/sys/kernel/tracing/kprobe_events"),
    )
    assert done.returncode == 2
    assert "kprobes-optimization" not in done.stdout
    assert "No such file" in done.stderr


@pytest.mark.parametrize("command", ["mount", "run"])
def test_an_unknown_one_is_refused(kpfs, tmp_path, command):
    done = kpfs(command, "--config", "FROB=n", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "OPTPROBES, KPROBES_ON_FTRACE, KPROBE_EVENTS" in done.stderr
