# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels for arm64 behind the files: see test_kernel_arches.py, too.

Tests kpfs.linux.arch.arm64, kpfs.linux.make.arm64.
"""

import errno
import re
import shutil

import pytest

import kpfs as library
from tests import harness
from tests.programs import static_program

pytestmark = [pytest.mark.fuse, pytest.mark.arm64_kernel]

KERNEL = harness.ARM64
TRACE = """
cd /sys/kernel/tracing
echo 'p:e do_sys_openat2 file=+0($arg2):ustring flags=%x3' >kprobe_events
echo 'r:back do_sys_openat2 ret=$retval' >>kprobe_events
echo 'p:inside vfs_read+8' >>kprobe_events
echo 1 >events/kprobes/enable
cat /sys/kernel/debug/kprobes/list
cat /etc/hostname >/dev/null
echo 0 >events/kprobes/enable
grep -A1 hostname trace
grep -c inside: trace
"""
INSIDE = """
uname -m
cd /sys/kernel/tracing
echo 'p:e do_sys_openat2 file=+0($arg2):ustring' >kprobe_events
echo 1 >events/kprobes/e/enable
cat /etc/debian_version 2>/dev/null
echo 0 >events/kprobes/e/enable
busybox grep -c 'file="/etc/debian_version"' trace
cd "$OLDPWD"
echo $1
pwd
touch lost
uname -m >kept/file
exit 3
"""


def run(kpfs, *command):
    done = kpfs("run", "--kernel", KERNEL, "--", *command)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_commands_hits_with_arguments(kpfs):
    said = run(kpfs, "sh", "-c", TRACE)
    listed = re.findall(r"^ffff[0-9a-f]{12}  (\w)  (\S+)", said, re.M)
    assert set(listed) == {
        ("k", "do_sys_openat2+0x0"),
        ("r", "do_sys_openat2+0x0"),
        ("k", "vfs_read+0x8"),
    }
    assert re.search(r' cat-\d+ +\[000\] .* file="/etc/hostname"', said)
    assert re.search(r"back: \(__arm64_sys_openat\+\S+ <- do_sys_openat2\)", said)
    assert int(said.splitlines()[-1]) > 0


def test_from_python():
    with library.Kernel(kernel=KERNEL, quiet=True) as kernel:
        kernel.write("/sys/kernel/tracing/kprobe_events", "p:e vfs_open $arg1\n")
        kernel.write("/sys/kernel/tracing/events/kprobes/e/enable", "1\n")
        before = kernel.snapshot()
        kernel.read("/proc/version")
        first = kernel.read("/sys/kernel/tracing/trace")
        kernel.restore(before)
        kernel.read("/proc/version")
        assert kernel.read("/sys/kernel/tracing/trace") == first
        assert first.count(" e: (vfs_open+0x0/") > 1


def test_handlers_in_python():
    with library.Kernel(kernel=KERNEL, quiet=True) as kernel:
        seen = []

        def skip(regs):
            seen.append(regs.x8)
            regs.x0, regs.pc = 77, regs.x30
            return 1

        entry = kernel.symbol("__arm64_sys_getppid")
        before = kernel.snapshot()
        probe = kernel.kprobe(entry, skip)
        assert kernel.task(4242).syscall("getppid") == 77
        probe.unregister()
        back = kernel.kretprobe(entry, lambda regs: seen.append(regs.x0))
        parent = kernel.task(4242).syscall("getppid")
        assert seen[1:] == [parent]
        inside = kernel.kprobe("vfs_read", lambda regs: seen.append(regs.pc), offset=8)
        kernel.read("/proc/version")
        assert kernel.symbol("vfs_read") + 8 == inside.address == seen[-1]
        assert back.nmissed == 0
        kernel.restore(before)
        assert kernel.read("/sys/kernel/debug/kprobes/list") == ""


def test_a_command_inside_has_the_files_of_a_root(kpfs, tmp_path):
    (tmp_path / "script").write_text(INSIDE)
    (tmp_path / "kept").mkdir()
    options = "--inside", "--kernel", KERNEL, "--root", harness.arm64_root()
    words = "sh", "script", "7"
    done = kpfs("run", *options, "--rw", "kept", "--", *words, cwd=tmp_path)
    assert done.stderr == ""
    uname, hits, status, cwd = done.stdout.splitlines()
    assert uname == "aarch64"
    assert int(hits) > 0
    assert status == "7"
    assert cwd == str(tmp_path)
    assert done.returncode == 3
    assert (tmp_path / "kept" / "file").read_text() == "aarch64\n"
    assert not (tmp_path / "lost").exists()


def test_programs_of_the_wrong_architecture(kpfs, tmp_path):
    shutil.copy(harness.arm64_root() / "bin" / "dash", tmp_path / "dash")
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert "\narch       arm64\n" in kpfs("kernel", "show", KERNEL).stdout
    other = "is a program for x86-64, and this kernel runs those for arm64"
    for word, status, why in (
        ("true", 126, rf"\S*/true {other}"),
        ("./script", 126, f"/bin/sh {other}"),
        ("./dash", 127, r"./dash needs /lib/ld-linux-aarch64.so.1, which is not there"),
        ("none", 127, "none: No such file or directory"),
    ):
        done = kpfs("run", "--inside", "--kernel", KERNEL, "--", word, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (status, "")
        assert re.fullmatch(f"kpfs: {why}\n", done.stderr)


def test_bpf_programs_count_exactly(kpfs, tmp_path):
    program = static_program("bpf", tmp_path, "aarch64-linux-gnu-")
    words = "--inside", "--kernel", KERNEL, "--", f"./{program.name}"
    done = kpfs("run", *words, cwd=tmp_path, timeout=120)
    rows = done.stdout.splitlines()
    assert done.returncode == 0
    assert {row.split(":")[0] for row in rows if row[:2] != "ok"} == {
        *("jit on", "jit off"),
        "skip kprobe.multi",  # without fprobe, as this kernel was built
    }


def test_why_a_probe_is_refused(kpfs):
    places = "vfs_read", "vfs_read+4", "vfs_read+2"
    done = kpfs("explain", "--kernel", KERNEL, *places)
    verdicts = re.findall("^  (accepted|refused).*: (.*)$", done.stdout, re.M)
    assert verdicts == [
        (
            "accepted",
            "arm64 has no jump optimisation; this instruction is stepped elsewhere",
        ),
        ("refused", "ftrace puts its calls there"),
        ("refused", "no instruction begins there"),
    ]
    assert done.returncode == 1
    with library.Kernel(kernel=KERNEL, quiet=True) as kernel:
        assert kernel.explain("vfs_read+4").errno == errno.EINVAL
