# SPDX-License-Identifier: GPL-2.0-or-later
"""Waiting for the files that wait, in each way that Linux has."""

import sys

import pytest

from tests import harness

pytestmark = pytest.mark.fuse

BEHIND = "--kernel", harness.KERNEL
PLACES = [
    pytest.param((), id="guest"),
    pytest.param(BEHIND, id="behind", marks=pytest.mark.kernel),
    # what Linux itself says
    pytest.param((*BEHIND, "--inside"), id="inside", marks=pytest.mark.kernel),
]

# waits with a time limit for an empty file, and for what another file's reader takes
LIMITS = """
import os, select
os.mkdir("/sys/kernel/tracing/instances/x")
files = [os.open(f"/sys/kernel/tracing/{folder}trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
         for folder in ("", "instances/x/")]
marker = os.open("/sys/kernel/tracing/trace_marker", os.O_WRONLY)
poll, level, edge = select.poll(), select.epoll(), select.epoll()
for fd in files:
    poll.register(fd, select.POLLIN)
    level.register(fd, select.EPOLLIN)
    edge.register(fd, select.EPOLLIN | select.EPOLLET)
ways = {
    "poll": lambda: poll.poll(100),
    "select": lambda: select.select(files, [], [], 0.1)[0],
    "level": lambda: level.poll(0.1),
    "edge": lambda: edge.poll(0.1),
}
for name, wait in ways.items():
    print(name, *(len(wait()) for _ in range(3)))
    for _ in range(2):
        os.write(marker, b"hello")
        print(name, *(len(wait()) for _ in range(3)))
    os.read(files[0], 4096)
"""
LIMITS_SAID = """\
poll 0 0 0
poll 1 1 1
poll 1 1 1
select 0 0 0
select 1 1 1
select 1 1 1
level 0 0 0
level 1 1 1
level 1 1 1
edge 0 0 0
edge 1 0 0
edge 1 0 0
"""


@pytest.mark.parametrize("where", PLACES)
def test_waits_with_a_time_limit_end(kpfs, where):
    done = kpfs("run", *where, "--", sys.executable, "-c", LIMITS)
    assert (done.stdout, done.stderr) == (LIMITS_SAID, "")
