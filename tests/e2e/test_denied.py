# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls that a sandbox denies: it works, or one line says so; nothing hangs.

scripts/campaign tries all of them; these are those that went wrong once.
"""

import errno
import sys

import pytest

from tests import harness
from tests.campaign.restrictions import CALLS, DENY

pytestmark = [pytest.mark.fuse, pytest.mark.guest]

SCRIPT = "cat /sys/kernel/debug/kprobes/list; echo fine"


@pytest.fixture
def denied(kpfs):
    """Runs kpfs where a system call fails."""

    def run(call, error, *words):
        prefix = [sys.executable, "-I", "-S", str(DENY), str(CALLS[call]), str(error)]
        # env, which the script's first line names, may need the call itself
        prefix.append("bash")
        return harness.run(*prefix, *kpfs.command(*words), timeout=harness.TIMEOUT)

    return run


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS])
@pytest.mark.parametrize(
    "call", ["writev", "rt_sigaction", "recvmsg", "ftruncate", "rt_sigtimedwait"]
)
def test_run_ends_without_an_indispensable_system_call(kpfs, denied, call, error):
    kpfs.announce("supervisor")
    done = denied(call, error, "run", "--", "sh", "-c", SCRIPT)
    (line,) = done.stderr.splitlines()
    assert line.startswith("kpfs: ")
    assert "a sandbox" in line
    assert (done.returncode, done.stdout) == (2, "")


def test_without_sendmsg_nothing_is_mirrored(denied):
    done = denied("sendmsg", errno.EPERM, "run", "--", "sh", "-c", SCRIPT)
    said = "kpfs: system calls are not mirrored: Operation not permitted\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", said)


def test_umount_without_poll(denied, mount):
    done = denied("poll", errno.ENOSYS, "umount", str(mount))
    (line,) = done.stderr.splitlines()
    assert line.startswith("kpfs: ")
    assert done.returncode == 2
    assert harness.is_mounted(mount)


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS])
def test_a_mount_without_poll(kpfs, denied, tmp_path, error):
    place = tmp_path / "place"
    place.mkdir()
    done = denied("poll", error, "mount", str(place))
    (line,) = done.stderr.splitlines()
    assert line.startswith("kpfs: poll(): ")
    assert done.returncode == 2
    assert not harness.is_mounted(place)
