# SPDX-License-Identifier: GPL-2.0-or-later
"""Many processes at once."""

import subprocess
import sys

import pytest

from tests import harness
from tests.e2e import stress

pytestmark = [pytest.mark.fuse, pytest.mark.guest, pytest.mark.long]

PROCESSES = 32


@pytest.mark.parametrize("switch", ["enabled", "optimization"])
@pytest.mark.parametrize(
    "seconds", [2, pytest.param(20, marks=pytest.mark.slow)], ids="{}s".format
)
def test_32_processes_read_and_toggle(mount, seconds, switch):
    (mount / "tracing/kprobe_events").write_text(stress.definitions())
    for i in range(len(stress.FIXED)):
        (mount / f"tracing/events/stress/f{i}/enable").write_text("1")
    toggler = "toggler" if switch == "optimization" else "lax_toggler"
    roles = [("optimizer" if switch == "optimization" else "switcher", 0)]
    roles += [(toggler, i) for i in range(len(stress.TARGETS))]
    roles += [("looker", i) for i in range(6)]
    roles += [("reader", i) for i in range(PROCESSES - len(roles))]
    children = [
        subprocess.Popen(
            [sys.executable, "-S", stress.__file__, mount, role, str(i), str(seconds)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for role, i in roles
    ]
    ends = [child.communicate(timeout=seconds + 60) for child in children]
    assert [err for _, err in ends if err] == []
    assert all(int(out) > 0 for out, _ in ends), ends
    assert harness.alive(harness.daemon_of(mount))
