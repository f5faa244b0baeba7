# SPDX-License-Identifier: GPL-2.0-or-later
"""A daemon whose kernel stands still ends, with one line that says of what.

The fault is one that the tests put in: whoever asks for the file system's size keeps
the kernel's lock for ever.
"""

import fcntl
import os
import subprocess
import sys
import threading

import pytest

from tests import harness

pytestmark = [pytest.mark.fuse, pytest.mark.guest]

FAULTY = """
import sys, threading
from kpfs.fs.fuse.ops import Operations
from kpfs.host import stuck

def statfs(self, _request, _nothing):
    with self.tree.lock:
        threading.Event().wait()

stuck.LOOK = 0.02
Operations.statfs = statfs
from kpfs.cli import main
sys.exit(main())
"""
KEEPS = """
exec 2>/dev/null
stat -f $KPFS &
while :; do cat $KPFS/kprobes/list; done
"""


def start(*words):
    command = [sys.executable, "-c", FAULTY, *words]
    return subprocess.Popen(command, stdout=-1, stderr=-1, text=True, cwd=harness.ROOT)


@pytest.mark.parametrize("mirror", ["watched", "always"])
def test_a_command_ends(tmp_path, mirror):
    log = tmp_path / "log"
    words = "--log", str(log), f"--mirror={mirror}"
    with start("run", *words, "--", "sh", "-c", KEEPS) as child:
        _, err = child.communicate(timeout=60)
    assert child.returncode == 128 + 9
    (line,) = [line for line in err.splitlines() if line.startswith("kpfs: ")]
    assert line.startswith("kpfs: the kernel stands still: thread fuse has waited for ")
    assert line.endswith(f"; please report this, with {log}")
    assert "in statfs" in log.read_text()


def test_a_mount_goes_away(tmp_path):
    place, log = tmp_path / "m", tmp_path / "log"
    place.mkdir()
    with start("mount", "--log", str(log), str(place)) as child:
        _, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (0, "")
    daemon = harness.daemon_of(place)
    for ask in (os.statvfs, lambda path: os.listdir(f"{path}/kprobes")):
        threading.Thread(target=lambda ask=ask: asked(ask, place), daemon=True).start()
    harness.until(lambda: not harness.alive(daemon), "the daemon goes on")
    harness.until(lambda: not harness.is_mounted(place), "the mount is there")
    assert "the kernel stands still" in log.read_text()


def test_a_log_that_nobody_reads_stops_nobody(tmp_path):
    log = tmp_path / "log"
    os.mkfifo(log)
    end = os.open(log, os.O_RDWR | os.O_NONBLOCK)
    fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, 4096)
    script = """
        n=0
        while [ $n -lt 50 ]; do
            n=$((n+1)); echo x >/sys/kernel/tracing/kprobe_events
        done 2>/dev/null
        echo end
    """
    words = "--verbose", "--log", str(log), "--", "sh", "-c", script
    done = harness.run(harness.KPFS, "run", *words, timeout=60)
    assert (done.stdout, done.stderr) == ("end\n", "")
    assert len(os.read(end, 1 << 16)) > 2048
    os.close(end)


def asked(ask, place):
    try:
        ask(place)
    except OSError:
        pass
