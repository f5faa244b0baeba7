# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's clock and the host's."""

import re
import struct

import pytest

from kpfs.linux.running.machine import Op
from tests.integration.linux.conftest import Process

pytestmark = pytest.mark.kernel

NANOSLEEP = 35
SECOND = 1_000_000_000


def test_wait_does_not_last_until_the_host_catches_up(boot):
    kernel = boot(quiet=False)
    process = Process(kernel, 4_000_001)
    with kernel.lock:
        machine = kernel.machine
        machine.advance(machine.now() + 10 * SECOND)
        assert machine.now() > machine.host_now()
        kernel.tasks.begin(process.task, [Op(NANOSLEEP, (struct.pack("<qq", 1, 0), 0))])
        assert process.task.waits
        assert machine.now() <= machine.host_now()


def test_ticks_are_counted_when_the_clock_follows_the_host(boot):
    """Ticks that are due at once count, too, as on a host with too much to do."""
    kernel = boot(quiet=False)
    process = Process(kernel, 4_000_001)
    before = ticks(process)
    with kernel.lock:
        kernel.machine.skip(SECOND)
    assert ticks(process) - before >= 100  # ticks of the slowest clock, HZ=100


def ticks(process):
    (jiffies,) = re.findall("^jiffies: (.*)", process.read("/proc/timer_list"), re.M)
    return int(jiffies)
