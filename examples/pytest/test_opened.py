# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of what uses kprobes, each with a kernel of its own: see README.md."""

import errno
import os
import subprocess
from pathlib import Path

import pytest

OPENED = Path(__file__).with_name("opened")


def test_a_definition(kpfs):
    """The probe that the script sets is accepted, and sees what is opened."""
    kpfs.write("tracing/kprobe_events", "p:e do_sys_openat2 file=+0(%si):ustring")
    kpfs.write("tracing/events/kprobes/e/enable", "1")
    kpfs.task(comm="cat").syscall("open", "/tmp/notes", os.O_RDWR | os.O_CREAT)
    seen = [(r.comm, r["file"]) for r in kpfs.trace() if r.event == "e"]
    assert ("cat", "/tmp/notes") in seen


def test_a_refusal(kpfs):
    """Functions that implement kprobes cannot be probed: the kernel answers EINVAL."""
    with pytest.raises(OSError, match="do_int3") as refused:
        kpfs.write("tracing/kprobe_events", "p do_int3")
    assert refused.value.errno == errno.EINVAL
    assert kpfs.explain("do_int3").why == "its function has no ftrace site"


def test_handlers(kpfs):
    """Handlers in Python see registers and memory, before a call and behind it."""
    asked, answered = [], []
    task = kpfs.task(comm="echo")
    fd = task.syscall("open", "/tmp/out", os.O_RDWR | os.O_CREAT)
    with (
        kpfs.kprobe("vfs_write", lambda r: asked.append(kpfs.read_string(r.si))),
        kpfs.kretprobe("vfs_write", lambda r: answered.append(r.ax)),
    ):
        task.syscall("write", fd, "five!", 5)
    assert (asked, answered) == (["five!"], [5])


def test_the_script(kpfs_run):
    """The script itself, which knows nothing of kpfs, at the kernel's own paths."""
    done = kpfs_run([OPENED, "cat", "/etc/passwd"])
    assert done.returncode == 0
    assert "/etc/passwd" in done.stdout.splitlines()
    assert done.kprobes == ""  # it has cleaned up


@pytest.mark.kpfs(cpus=1, config={"OPTPROBES": False})
def test_any_program(kpfs_mount):
    """A kernel without jumps, mounted: whatever can open a file can use it."""
    (kpfs_mount / "tracing/kprobe_events").write_text("p vfs_open")
    subprocess.run(["cat", kpfs_mount / "version"], check=True)
    assert "vfs_open+0x0" in (kpfs_mount / "kprobes/list").read_text()
    assert not (kpfs_mount / "sys/debug/kprobes-optimization").exists()


@pytest.mark.kernels("6.12-cloud", "6.12")
def test_inside_real_kernels(kpfs_inside):
    """The script as a program of kernels of a distribution, of those that were made."""
    done = kpfs_inside([OPENED, "cat", "/etc/passwd"])
    assert "/etc/passwd" in done.stdout.splitlines(), done.stderr
