# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs mount --transport libfuse``; integration/fuse has what Linux makes of it."""

import os
import signal
import subprocess
import sys

import pytest

from tests import harness

BY_LIBFUSE = ("--transport", "libfuse")
NEEDS = "kpfs: fusepy needs libfuse 2: apt install libfuse2"
pytestmark = [pytest.mark.libfuse, pytest.mark.guest]


@pytest.mark.parametrize("kernel", [(), ("--kernel", harness.KERNEL)])
def test_a_mount(request, kpfs, kernel):
    if kernel and (missing := harness.missing_kernels(harness.KERNEL)):
        pytest.skip(missing)
    if kernel:
        request.getfixturevalue("monkeypatch").setenv(
            "XDG_DATA_HOME", str(harness.kernels())
        )
    target = kpfs.mount(*BY_LIBFUSE, *kernel)
    daemon = harness.daemon_of(target)
    (target / "tracing/kprobe_events").write_text("p:e vfs_read")
    (target / "tracing/events/kprobes/e/enable").write_text("1")
    assert "vfs_read" in (target / "kprobes/list").read_text()
    with pytest.raises(OSError, match="Invalid argument"):
        (target / "kprobes/enabled").write_text("3")
    done = kpfs("umount", target)
    assert (done.returncode, done.stderr) == (0, "")
    assert not harness.is_mounted(target)
    assert not harness.alive(daemon)


def test_sigterm_leaves_nothing_mounted(kpfs):
    target = kpfs.mount(*BY_LIBFUSE)
    command = ["cat", target / "tracing/trace_pipe"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as reader:
        harness.await_blocked(reader, target / "tracing/trace_pipe")
        harness.kill(harness.daemon_of(target), signal.SIGTERM)
        assert reader.wait(harness.TIMEOUT) != 0
    assert not harness.is_mounted(target)
    assert f"{target}: ended by SIGTERM\n" in kpfs.log.read_text()


@pytest.mark.parametrize("options", [(), ("--foreground",)])
def test_without_libfuse(kpfs, tmp_path, options):
    environment = {**os.environ, "FUSE_LIBRARY_PATH": "/none"}
    done = kpfs("mount", *BY_LIBFUSE, *options, tmp_path, env=environment)
    assert done.returncode == 2
    assert done.stderr.startswith(NEEDS)
    assert done.stderr.count("\n") == 1
    assert not harness.is_mounted(tmp_path)


def test_without_fusepy():
    script = (
        "import sys; sys.modules['fuse'] = sys.modules['mfusepy'] = None\n"
        "import kpfs.fs.fuse.libfuse"
    )
    done = harness.run(sys.executable, "-c", script, cwd=harness.ROOT)
    assert "the Python package fusepy is missing: pip install fusepy" in done.stderr


def test_what_libfuse_says(kpfs, tmp_path):
    """The reason for a failed mount is told in libfuse's own words."""
    if os.geteuid() != 0:
        pytest.skip("only root can cover /dev/fuse")
    mount = kpfs.command("mount", *BY_LIBFUSE, tmp_path)
    script = 'mount --bind /dev/null /dev/fuse && exec "$@"'
    done = harness.run("unshare", "-m", "sh", "-c", script, "-", *mount)
    assert (done.returncode, done.stdout) == (2, "")
    assert "mount" in done.stderr
    assert done.stderr.count("\n") == 1
