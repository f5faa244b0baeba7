# SPDX-License-Identifier: GPL-2.0-or-later
"""A short run of the fuzzer; scripts/fuzz makes long ones."""

import subprocess
import sys

import pytest

from tests import harness
from tests.fuzz.fuzz import random_bytes

pytestmark = [pytest.mark.fuse, pytest.mark.guest]


@pytest.mark.parametrize(
    ("writes", "seed"), [(3000, 1), pytest.param(100_000, 2, marks=pytest.mark.slow)]
)
def test_any_bytes_into_any_file(mount, writes, seed):
    words = [sys.executable, "-m", "tests.fuzz", "--mount", mount]
    words += ["bytes", str(writes), str(seed)]
    done = subprocess.run(words, cwd=harness.ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "ok" in done.stdout
    assert "EINVAL" in done.stdout
    assert harness.alive(harness.daemon_of(mount))


def test_random_bytes_have_words_noise_and_edges():
    import random

    rng = random.Random(0)
    samples = [random_bytes(rng) for _ in range(3000)]
    sizes = set(map(len, samples))
    assert {0, 1, 64, 4096, 131073} <= sizes
    assert any(b"p:e vfs_read" in s for s in samples)
    assert any(b"\0" in s for s in samples)
