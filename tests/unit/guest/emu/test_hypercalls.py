# SPDX-License-Identifier: GPL-2.0-or-later
"""hypercalls: those that C serves, and Python where there is no library."""

import struct

import pytest

from kpfs.base import abi
from kpfs.emulator import libunicorn
from kpfs.guest.running.clock import KTIME_MAX, QUIET_STEP, Clock
from tests.unit.guest.bare import BareCpu

END = f"e7{abi.HC_YIELD:02x}eb00"
CLOCK = f"e7{abi.HC_CLOCK:02x}"
STEP = f"b8{abi.CLOCK_STEP:02x}000000" + CLOCK
READ = f"b8{abi.CLOCK_READ:02x}000000" + CLOCK


@pytest.fixture(params=["C", "Python"])
def bare(request, monkeypatch):
    if request.param == "Python":
        library = libunicorn.load()[0]
        monkeypatch.setattr(libunicorn, "load", lambda: (library, None))
    bare = BareCpu()
    yield bare
    bare.cpu.close()


def clocked(bare, quiet):
    """A clock that the CPU's hypercalls bring up to date."""
    clock = Clock(bare.memory, bare.memory.alloc_low(4096), quiet)
    bare.cpu.hypercalls[abi.HC_CLOCK] = clock.asked
    bare.cpu.fast.keep_clock(*clock.word(bare.memory.host_address()))
    return clock


def word(bare, clock):
    return struct.unpack_from("<Q", bare.memory.ram, clock.word(0)[0])[0]


def test_ends_the_run(bare):
    bare.cpu.ends(abi.HC_YIELD)
    bare.run(END)
    assert (bare.cpu.ended, bare.stops) == (abi.HC_YIELD, [])
    bare.run("90")
    assert (bare.cpu.ended, len(bare.stops)) == (0, 1)


def test_a_virtual_clock_steps(bare):
    clock = clocked(bare, quiet=True)
    bare.run(READ)
    assert clock.now() == 0
    bare.run(STEP * 2)
    assert clock.now() == 2 * QUIET_STEP
    clock.advance(KTIME_MAX)
    bare.run(STEP)
    assert clock.now() == KTIME_MAX


def test_the_hosts_clock_is_read(bare):
    clock = clocked(bare, quiet=False)
    before = clock.now()
    bare.run(STEP)
    assert before < word(bare, clock) <= clock.now()


@pytest.mark.parametrize("bare", ["C"], indirect=True)
def test_a_debuggers_time_is_pythons(bare):
    clock = clocked(bare, quiet=False)
    bare.cpu.debug()
    clock.host = lambda: 1 << 62
    bare.run(READ)
    assert word(bare, clock) > 1 << 61
