# SPDX-License-Identifier: GPL-2.0-or-later
"""A little of what ``scripts/campaign fuzz`` writes to all files."""

import random
import signal

import pytest

from tests import harness
from tests.campaign.fuzz import Writes
from tests.fuzz.fuzz import random_bytes, read_all, replay, too_long
from tests.fuzz.lines import KINDS
from tests.fuzz.mount_lines import ALL_DEFINITIONS, PROBES

pytestmark = [pytest.mark.fuse, pytest.mark.guest]


def test_any_bytes_and_lines_into_any_file(kpfs):
    """A write that is refused changes nothing."""
    mount = kpfs.mount("--quiet-guest")
    daemon, before = harness.daemon_of(mount), signal.signal(signal.SIGALRM, too_long)
    writes = Writes(mount, 1)
    try:
        replay(mount)
        for number in range(500):
            writes.step(number)
        read_all(str(mount))
        writes.clear()
        assert [writes.show(name) for name in (ALL_DEFINITIONS, PROBES)] == ["", ""]
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    for kind in ("", *(f"{kind} " for kind in KINDS)):
        assert writes.tally[f"{kind}ok"]
        assert writes.tally[f"{kind}EINVAL"]
    assert harness.alive(daemon)


def test_random_bytes_have_words_noise_and_edges():
    rng = random.Random(0)
    samples = [random_bytes(rng) for _ in range(3000)]
    sizes = set(map(len, samples))
    assert {0, 1, 64, 4096, 131073} <= sizes
    assert any(b"p:e vfs_read" in s for s in samples)
    assert any(b"\0" in s for s in samples)
