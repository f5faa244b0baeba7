# SPDX-License-Identifier: GPL-2.0-or-later
"""Which system calls of a command a kernel sees, call by call.

Tests kpfs.mirror.calls, kpfs.backends.linux.mirror.
"""

import os
import sys
from pathlib import Path

import pytest

from tests import harness

pytestmark = [pytest.mark.fuse]

ROOT = Path(__file__).parents[2]
TIMES = "4"
ALWAYS = ("--mirror=always",)


def made(kpfs, calls, *options):
    """Return what a kernel sees of these calls: name -> how often, and results."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    program = "-m", "tests.programs.calls", TIMES, calls
    command = "run", *options, "--", sys.executable, *program
    done = kpfs(*command, env=environment, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")
    lines = (line.partition(" ") for line in done.stdout.splitlines())
    return {name: rest for name, _, rest in lines}


@pytest.mark.kernel
@pytest.mark.long
def test_a_linux_kernel_sees_each_call(kpfs):
    """It sees as many as where the program is its own, and the same results."""
    kernel = "--kernel", harness.KERNEL
    always = made(kpfs, "linux", *kernel, *ALWAYS)
    assert len(always) > 50
    assert {line.split()[0] for line in always.values()} == {TIMES}
    assert always == made(kpfs, "linux", *kernel, "--inside")
    watched = made(kpfs, "watched", *kernel)
    assert {line.split()[0] for line in watched.values()} == {TIMES}


@pytest.mark.guest
@pytest.mark.parametrize("options", [(), ALWAYS], ids=["watched", "always"])
def test_the_guest_kernel_sees_each_call_that_it_has(kpfs, options):
    seen = made(kpfs, "guest", "--quiet-guest", *options)
    often = {name: line.split()[0] for name, line in seen.items()}
    assert often.pop("sched_yield") == (TIMES if options else "0")
    assert set(often.values()) == {TIMES}
    results = {name: line.partition(" ")[2] for name, line in seen.items()}
    assert {results[name] for name in ("kill", "nanosleep", "sync", "F_SETFL")} == {"0"}
    assert results["pwrite64"] == "3"
