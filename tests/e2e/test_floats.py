# SPDX-License-Identifier: GPL-2.0-or-later
"""Floating-point instructions inside a Linux kernel do what the host's do.

This tests guest/emu/sse.c and guest/emu/strings.c.
"""

import os

import pytest

from tests import harness
from tests.campaign import floats
from tests.programs import static_program

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="another processor"),
]


@pytest.mark.parametrize("seed", [1, 2])
def test_random_instructions(kpfs, tmp_path, seed):
    """Results, MXCSR, flags, and the code of a SIGFPE."""
    static_program("floats", tmp_path)
    found = floats.compare(kpfs, harness.KERNEL, tmp_path, seed, 0, 3000)
    assert found == [], "\n".join(found[:10])
