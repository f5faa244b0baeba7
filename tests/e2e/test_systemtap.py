# SPDX-License-Identifier: GPL-2.0-or-later
"""SystemTap inside a Linux kernel, by its module runtime and by BPF.

stap translates and compiles on the host, as docs/howto/kernels.md tells it; compiling
takes most of the time. staprun and stapbpf run in the kernel.
"""

import re
import shutil
from pathlib import Path

import pytest

from tests import harness, kernel_modules

pytestmark = [pytest.mark.kernel, pytest.mark.long]

SCRIPT = """
global hits, returned
probe kprobe.function("vfs_statx") { if (execname() == "stat") hits++ }
probe kprobe.function("vfs_statx").return { if (execname() == "stat") returned++ }
probe end { printf("hits %d returned %d\\n", hits, returned) }
"""
STAT = "/usr/bin/stat -c %n /etc"
RUNTIME = Path("/usr/share/systemtap/runtime")


@pytest.fixture
def stap(kpfs, tmp_path):
    """Returns a function that compiles a script into a file; skips without stap."""
    if not shutil.which("stap"):
        pytest.skip("stap is not installed (Debian: systemtap)")
    build = tmp_path / "build"
    build.mkdir()
    for path in kernel_modules.headers().iterdir():
        (build / path.name).symlink_to(path)
    listed = kpfs("run", "--kernel", harness.KERNEL, "--", "cat", "/proc/kallsyms")
    assert listed.returncode == 0, listed.stderr
    kernel = [line for line in listed.stdout.splitlines(True) if "[" not in line]
    (build / "System.map").write_text("".join(kernel))

    def compile(script, *options):
        words = ("stap", "-p4", "-r", build, "-m", "script", *options, "-e", script)
        done = harness.run(*words, cwd=tmp_path, timeout=harness.TIMEOUT)
        assert done.returncode == 0, done.stderr
        return tmp_path / done.stdout.strip()

    return compile


def inside(kpfs, *words, **options):
    """Return what a command prints that runs in the kernel."""
    done = kpfs("run", "--kernel", harness.KERNEL, "--inside", "--", *words, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def runtime(tmp_path):
    """Return SystemTap's runtime, in which a function has the kernel's name for it.

    SystemTap 4.8 is older than the releases of Linux 6.1 that have renamed it.
    """
    copy = tmp_path / "runtime"
    shutil.copytree(RUNTIME, copy)
    source = copy / "stp_task_work.c"
    text = source.read_text()
    if "task_work_cancel_func" not in text:
        name = r"\btask_work_cancel\b"
        source.write_text(re.sub(name, "task_work_cancel_func", text))
    return copy


def test_module_runtime(kpfs, stap, tmp_path):
    module = stap(SCRIPT, "-R", runtime(tmp_path))
    shown = inside(kpfs, "staprun", module.name, "-c", STAT, cwd=tmp_path)
    hits = re.search(r"^/etc\nhits (\d+) returned (\d+)$", shown, re.M)
    assert hits, shown
    assert int(hits[1]) == int(hits[2]) > 0


def test_bpf(kpfs, stap, tmp_path):
    place = "/proc/kallsyms"
    listed = inside(kpfs, "grep", "-E", " (vfs_statx|_stext)$", place)
    address = {name: int(at, 16) for at, _, name in map(str.split, listed.splitlines())}
    offset = address["vfs_statx"] - address["_stext"]
    script = f"""
        global hits
        probe kprobe.statement({offset:#x}).absolute {{ hits++; exit() }}
        probe end {{ printf("hits %d\\n", hits) }}
    """
    program = stap(script, "--bpf", "-g")
    shown = inside(kpfs, "stapbpf", program.name, "-c", STAT, cwd=tmp_path)
    assert re.search(r"^hits 1$", shown, re.M), shown


def test_bpf_by_name_is_refused(kpfs, stap, tmp_path):
    """SystemTap 4.8 then asks for a probe at the start of the text, as on Linux."""
    script = 'probe kprobe.function("vfs_statx") { exit() }'
    program = stap(script, "--bpf")
    words = ("run", "--kernel", harness.KERNEL, "--inside", "--", "stapbpf")
    done = kpfs(*words, program.name, cwd=tmp_path)
    assert done.returncode != 0
    assert "Error creating probe 0: Invalid argument" in done.stderr
