# SPDX-License-Identifier: GPL-2.0-or-later
"""A Linux kernel that never answers: signals end kpfs all the same, and leave nothing.

Tests kpfs.host.ending in commands, and the start of kpfs.inside.machine.
"""

import json
import os
import signal
import subprocess
import sys

import pytest

from kpfs.linux.errors import UnfitError
from kpfs.linux.inside import mounted
from kpfs.linux.store import image
from tests import harness
from tests.campaign import processes

pytestmark = [pytest.mark.kernel, pytest.mark.fuse]

NAME = "hostile"
RUN = "run", "--kernel", NAME
INSIDE = *RUN, "--inside"
WORKS = 0.7  # s of processor time that a start does not take


@pytest.fixture
def hostile(monkeypatch, tmp_path, made_kernels):
    """The folder of a kernel whose agent never comes to its pause."""
    made = harness.kernels() / "kpfs/kernels" / harness.KERNEL
    folder = tmp_path / "data/kpfs/kernels" / NAME
    folder.mkdir(parents=True)
    for name in (image.RAM, image.SYMBOLS, image.CONFIG, image.MODULES):
        (folder / name).symlink_to(made / name)
    meta = json.loads((made / image.META).read_text())
    (folder / image.META).write_text(json.dumps({**meta, "pause": 0}))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return folder


def started_by(mark):
    """Return the processes that have a variable MARK of that value."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if f"MARK={mark}\0".encode() in file.read():
                    found.append(int(name))
        except OSError:
            continue
    return [pid for pid in found if harness.alive(pid)]


def works(mark):
    return any(harness.cpu_time(pid) > WORKS for pid in started_by(mark))


@pytest.mark.parametrize(
    ("words", "warm", "number", "status"),
    [
        (RUN, "0", signal.SIGTERM, -signal.SIGTERM),
        (RUN, "0", signal.SIGINT, -signal.SIGINT),
        (INSIDE, "0", signal.SIGTERM, 128 + signal.SIGTERM),
        (INSIDE, "0", signal.SIGINT, 130),
        (INSIDE, "0", signal.SIGKILL, -signal.SIGKILL),
        (INSIDE, "30", signal.SIGTERM, -signal.SIGTERM),
        (INSIDE, "30", signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_a_signal_ends_a_start_that_has_no_end(
    kpfs, hostile, tmp_path, words, warm, number, status
):
    environment = {**os.environ, "MARK": str(tmp_path), "KPFS_WARM": warm}
    command = kpfs.command(*words, "--", "true")
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment) as child:
        harness.until(lambda: works(tmp_path), "it does not start", every=0.1)
        assert child.poll() is None
        child.send_signal(number)
        assert child.communicate(timeout=harness.TIMEOUT)[1] == b""
    assert child.returncode == status
    harness.until(
        lambda: not started_by(tmp_path),
        f"left behind: {processes.told(started_by(tmp_path))}",
    )


def test_a_start_ends_by_itself(hostile, monkeypatch):
    monkeypatch.setattr(mounted, "MAX_SECONDS", 0.5)
    with pytest.raises(UnfitError, match=r"6\.1\..* does not come up within 0.5 s"):
        mounted.start(str(hostile), quiet=False)


def test_signals_end_its_mount(kpfs, hostile):
    kpfs.announce("did not end within 2 s: killed")
    target = kpfs.mount("--kernel", NAME)
    daemon = harness.daemon_of(target)
    with subprocess.Popen(["cat", target / "version"], stderr=-1) as reader:
        harness.until(lambda: harness.cpu_time(daemon) > WORKS, "nobody asks it")
        harness.kill(daemon, signal.SIGTERM)
        assert reader.wait(harness.TIMEOUT) == 1
    harness.until(lambda: not harness.is_mounted(target), "it stays mounted")


PYTHON = f"""
import kpfs
with kpfs.Kernel(kernel={NAME!r}) as kernel:
    kernel.read("kprobes/list")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_a_program_that_has_it(hostile, number):
    words = sys.executable, "-c", PYTHON
    with subprocess.Popen(words, stderr=subprocess.PIPE, cwd=harness.ROOT) as child:
        harness.until(lambda: harness.cpu_time(child.pid) > 2 * WORKS, "no start")
        child.send_signal(number)
        child.communicate(timeout=harness.TIMEOUT)
    assert child.returncode == -number
