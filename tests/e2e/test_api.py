# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.mount() and kpfs.run(), kpfs.api.pytest_plugin, and the example of it."""

import os
import re
import resource
import subprocess
import sys
import time

import pytest

import kpfs
from tests import harness

EXAMPLE = harness.ROOT / "examples/pytest"
FAILING = """
import pytest

@pytest.mark.kpfs(cpus=1)
def test_it(kpfs):
    kpfs.write("tracing/kprobe_events", "p:mine vfs_read")
    kpfs.write("tracing/events/kprobes/mine/enable", "1")
    with pytest.raises(OSError):
        kpfs.append("tracing/kprobe_events", "p:bad no_such_function")
    assert kpfs.listdir("tracing/per_cpu") == ["cpu0", "cpu1"]

@pytest.mark.kpfs(1)
def test_wrong(kpfs):
    pass
"""
INSIDE = f"""
import pytest

@pytest.mark.kernels("{harness.KERNEL}", "none")
def test_right(kpfs_inside, kpfs_kernel, tmp_path):
    script = "uname -r; cat; pwd; echo x >file; exit 3"
    done = kpfs_inside(script, input="in ", cwd=tmp_path, rw=[tmp_path], memory=128)
    assert kpfs_kernel == "{harness.KERNEL}"
    assert done.returncode == 3
    assert done.stdout.partition("\\n")[2] == f"in {{tmp_path}}\\n"
    assert done.stdout.startswith("6.1.")
    assert (tmp_path / "file").read_text() == "x\\n"

@pytest.mark.kernels("{harness.KERNEL}", "none")
def test_wrong(kpfs_inside):
    assert kpfs_inside(["sh", "-c", "echo why >&2"]).returncode == 1

def test_without(kpfs_inside):
    pass
"""
ARM64 = """
import pytest

arm64 = pytest.mark.kpfs(kernel="{kernel}")

@arm64
def test_kernel(kpfs):
    assert kpfs.symbol("__arm64_sys_getppid")

@arm64
def test_mount(kpfs_mount):
    assert (kpfs_mount / "kprobes/enabled").read_text() == "1\\n"

@arm64
def test_run(kpfs_run):
    assert kpfs_run(["uname", "-m"]).stdout == "aarch64\\n"

@pytest.mark.kernels("{kernel}")
def test_inside(kpfs_inside):
    done = kpfs_inside("exec busybox uname -m", root="{root}")
    assert (done.returncode, done.stdout) == (0, "aarch64\\n")
"""
FAILING_COMMAND = """
def test_it(kpfs_run):
    done = kpfs_run("echo p:bad no_such >/sys/kernel/tracing/kprobe_events; echo said")
    assert done.returncode == 9
"""


REACHED = """
def test_one(kpfs, kpfs_coverage):
    kpfs.insmod("kprobe_example")
    kpfs.rmmod("kprobe_example")
    reached = kpfs_coverage().functions()
    assert reached["kprobe_example_init"] == reached["kprobe_example_exit"] == 1

def test_other(kpfs):
    kpfs.insmod("kprobe_example")
"""


def run_pytest(*words):
    """pytest after an installation of kpfs, without plugins of others but xdist."""
    names = "kpfs.api.pytest_plugin", "no:cacheprovider", "xdist"
    plugins = [word for name in names for word in ("-p", name)]
    command = [sys.executable, "-m", "pytest", *plugins, "-c", "/dev/null", *words]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = harness.run(
        *command, cwd=harness.ROOT, env=environment, timeout=harness.TIMEOUT
    )
    return done.returncode, done.stdout + done.stderr


# ---- functions
LIMITED = """
def test_it(kpfs):
    pass
def test_mount(kpfs_mount):
    pass
def test_run(kpfs_run):
    kpfs_run("true")
"""


def test_a_kernel_that_cannot_be_had_is_one_line(tmp_path):
    """CI has such limits; workers of pytest-xdist report it in one line, too."""
    (tmp_path / "test_limited.py").write_text(LIMITED)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, before[1]))
    try:
        status, said = run_pytest("-q", "-n2", tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert status == 1
    line = "kpfs: ulimit -n is 100: kpfs needs 128 or more here"
    assert re.findall(f"(?m)^{line}$", said) == [line] * 3
    assert "commands.py" not in said
    assert ".py:" not in said.partition("summary")[0]


@pytest.mark.fuse
def test_mount(tmp_path):
    with kpfs.mount(tmp_path, cpus=1, config={"MODULES": False}) as mounted:
        assert mounted.path == tmp_path
        assert (tmp_path / "kprobes/enabled").read_text() == "1\n"
        assert not (tmp_path / "modules").exists()
        with pytest.raises(kpfs.SetupError, match="mounted already"):
            kpfs.mount(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(kpfs.SetupError, match="no mount of kpfs"):
        mounted.unmount()
    with pytest.raises(kpfs.SetupError, match="no option 'WRONG'"):
        kpfs.mount(tmp_path, config={"WRONG": True})


@pytest.mark.fuse
def test_run():
    script = """
    cd /sys/kernel/tracing
    echo 'p:opened do_sys_openat2 file=+0(%si):ustring' >kprobe_events
    echo 1 >events/kprobes/opened/enable
    cat /etc/hostname >/dev/null
    echo logged >/dev/kmsg
    cat; echo oh >&2; exit 3
    """
    done = kpfs.run(script, input="given", keep=["tracing/kprobe_profile"])
    assert (done.returncode, done.stdout, done.stderr) == (3, "given", "oh\n")
    assert "do_sys_openat2+0x0" in done.kprobes
    assert "logged\n" in done.dmesg
    assert 'file="/etc/hostname"' in done.trace
    assert "tracing_on" not in done.trace  # that was not the command
    assert done.files["tracing/kprobe_profile"].split()[0] == "opened"
    assert done.error_log == ""


@pytest.mark.fuse
def test_a_run_that_cannot_begin():
    assert kpfs.run(["no-such-command"]).returncode == 127
    assert kpfs.run(["exit", "3"]).returncode == 127  # the shell's own are no commands
    with pytest.raises(kpfs.SetupError, match="no option"):
        kpfs.run(["true"], config={"WRONG": True})
    with pytest.raises(kpfs.SetupError, match="17"):
        kpfs.run(["true"], cpus=17)


@pytest.mark.fuse
def test_run_with_a_timeout(tmp_path):
    mark = tmp_path / "alive"
    began = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        kpfs.run(f"sleep 20; touch {mark}", timeout=1.5)
    assert time.monotonic() - began < 15
    assert not mark.exists()


# ---- the plugin
@pytest.mark.fuse
def test_the_example(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))  # no kernels were made
    status, text = run_pytest(str(EXAMPLE))
    assert (status, "5 passed, 2 skipped" in text) == (0, True), text


def test_the_report_of_a_failure(tmp_path):
    (tmp_path / "test_it.py").write_text(FAILING)
    status, text = run_pytest(str(tmp_path))
    assert status == 1
    assert "1 failed, 1 error" in text
    assert "kpfs: dmesg" in text
    assert "kpfs: kprobes/list" in text
    assert "vfs_read+0x0    [FTRACE]" in text
    assert "trace_kprobe: error: Invalid probed address or symbol" in text
    assert "mine: (vfs_read+0x0/" in text.partition("the end of trace")[2]
    assert "the marker kpfs takes keywords alone" in text


@pytest.mark.fuse
def test_the_report_of_a_command(tmp_path):
    (tmp_path / "test_it.py").write_text(FAILING_COMMAND)
    status, text = run_pytest(str(tmp_path))
    assert status == 1
    assert "kpfs: stdout of the command" in text
    assert "Command: p:bad no_such" in text.partition("kpfs: error_log")[2]


@pytest.mark.kernel
def test_coverage_adds_up_over_tests(tmp_path):
    (tmp_path / "test_reached.py").write_text(REACHED)
    for words in ((), ("--kpfs-coverage", str(tmp_path / "made"))):
        status, said = run_pytest(*words, str(tmp_path / "test_reached.py"))
        assert status == 0, said
    records = (tmp_path / "made").read_text().splitlines()
    assert "FNDA:2,kprobe_example_init" in records
    assert "FNDA:1,kprobe_example_exit" in records


@pytest.mark.kernel
def test_the_marker_kernels(tmp_path):
    (tmp_path / "test_it.py").write_text(INSIDE)
    status, text = run_pytest("-rs", str(tmp_path))
    assert status == 1
    assert re.search("1 failed, 1 passed, 2 skipped,.* 1 error", text), text
    assert "no kernel none; those that are there" in text
    assert "stderr of the command ---" in text
    assert 'which kernels? @pytest.mark.kernels("6.12", ...)' in text


@pytest.mark.fuse
@pytest.mark.arm64_kernel
def test_fixtures_with_a_kernel_of_another_architecture(tmp_path):
    text = ARM64.format(kernel=harness.ARM64, root=harness.arm64_root())
    (tmp_path / "test_it.py").write_text(text)
    status, said = run_pytest("-q", tmp_path)
    assert status == 0, said
    assert "4 passed" in said


def test_run_inside_wants_a_kernel_that_is_there():
    with pytest.raises(kpfs.SetupError, match="no kernel none"):
        kpfs.run_inside("true", kernel="none")


def test_the_marker_is_known():
    assert "@pytest.mark.kpfs(cpus=2, config={}, kernel=" in run_pytest("--markers")[1]
