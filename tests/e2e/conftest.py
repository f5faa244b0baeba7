# SPDX-License-Identifier: GPL-2.0-or-later
"""Fixtures of the tests of whole commands."""

import os
import subprocess
from pathlib import Path

import pytest

from tests import harness

# In a mount namespace of our own everyone may open /dev/fuse.
OPEN_DEVICE = """
mount --make-rprivate /
mount -t tmpfs none "$1"
mknod -m 666 "$1/fuse" c 10 229
mount --bind "$1/fuse" /dev/fuse
shift
exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
"""


@pytest.fixture(scope="session")
def ordinary(tmp_path_factory):
    """Runs a shell script as an ordinary user that may read the checkout at most.

    In the script $kpfs is the command. around: words of a command that runs another,
    as the user that runs the tests.
    """
    prefix: list[str]
    if os.geteuid() != 0:
        prefix = []
        checkout, top = harness.ROOT, tmp_path_factory.mktemp("ordinary")
        home = Path(os.environ["HOME"])
    else:
        top = harness.run_folder() / "ordinary"
        checkout, home, device = top / "checkout", top / "home", top / "device"
        prefix = ["unshare", "-m", "sh", "-ec", OPEN_DEVICE, "sh", str(device)]
    path = "/usr/bin:/bin:/usr/sbin:/sbin"
    settings = {"HOME": str(home), "PATH": path, **harness.pip_settings()}
    settings["kpfs"] = str(checkout / "scripts/kpfs")

    def run(script, timeout=300, around=()):
        return subprocess.run(
            [*around, *prefix, "sh", "-c", script],
            env=settings,
            cwd=home if prefix else top,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def prepare(_top):
        if prefix:
            for folder in (checkout, home, device):
                folder.mkdir()
            harness.copy_checkout(checkout)
            os.chown(home, harness.NOBODY, harness.NOBODY)
        first = run("$kpfs completion bash")  # prepares a virtual environment
        if "kpfs: needs" in first.stderr:
            pytest.skip(first.stderr.splitlines()[-1])
        assert first.returncode == 0, first.stderr

    harness.once("ordinary", prepare)
    return run
