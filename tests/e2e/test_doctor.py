# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs doctor on this host, and where a sandbox denies it something."""

import errno
import json
import sys

import pytest

from tests import harness
from tests.campaign.restrictions import CALLS, DENY

pytestmark = [pytest.mark.fuse, pytest.mark.guest]


def states(done):
    rows = json.loads(done.stdout)["checks"]
    return {row["name"]: row["state"] for row in rows}


def test_here(kpfs):
    done = kpfs("doctor", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert states(done)["kpfs run"] == "ok"
    assert "broken" not in states(done).values()


@pytest.mark.parametrize(
    ("call", "status", "state"),
    [("unshare", 1, ("namespaces", "broken")), ("seccomp", 0, ("seccomp", "limited"))],
)
def test_a_denied_call(kpfs, call, status, state):
    prefix = [sys.executable, "-I", "-S", str(DENY), str(CALLS[call]), str(errno.EPERM)]
    done = harness.run(
        *prefix, *kpfs.command("doctor", "--json"), timeout=harness.TIMEOUT
    )
    assert done.returncode == status
    assert state in states(done).items()


@pytest.mark.user
def test_as_an_ordinary_user(ordinary):
    done = ordinary("$kpfs doctor --json")
    assert done.returncode == 0, done.stdout
    assert states(done)["kpfs run"] == "ok"
