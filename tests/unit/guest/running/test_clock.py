# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.guest.running.clock: live and virtual time, functions to be run later."""

import pytest

from kpfs.guest.emu.memory import Memory
from kpfs.guest.running.clock import QUIET_STEP, Clock

WORD = 0x8000


@pytest.fixture
def memory():
    return Memory()


def test_live_time_follows_the_host_and_never_goes_back(memory):
    clock = Clock(memory, WORD, quiet=False)
    first = clock.now()
    assert 0 <= first <= clock.now() < 60e9
    ahead = first + 10**12  # guest code took the word ahead of the host
    memory.ram[WORD : WORD + 8] = ahead.to_bytes(8, "little")
    assert clock.now() == ahead
    clock.advance(ahead * 2)
    assert clock.now() == ahead


def test_virtual_time_stands_still_between_operations(memory):
    clock = Clock(memory, WORD, quiet=True)
    assert clock.now() == clock.now() == 0
    clock.step()
    assert clock.now() == QUIET_STEP
    clock.advance(QUIET_STEP * 5)
    clock.advance(3)
    assert clock.now() == QUIET_STEP * 5
    word = int.from_bytes(memory.ram[WORD : WORD + 8], "little")
    assert word == QUIET_STEP * 5


def test_virtual_time_ends_where_the_guest_counts_no_further(memory):
    clock = Clock(memory, WORD, quiet=True)
    clock.advance((1 << 64) - 1)
    clock.step()
    assert clock.now() == (1 << 63) - 1


def test_virtual_time_jumps_to_a_deadline_that_was_waited_for(memory, monkeypatch):
    host = [10**9]
    monkeypatch.setattr("time.monotonic_ns", lambda: host[0])
    clock = Clock(memory, WORD, quiet=True)
    clock.await_deadline(1000)
    host[0] += 999
    clock.await_deadline(1000)
    assert clock.now() == 0
    clock.await_deadline(900)  # another one: waiting begins anew
    host[0] += 900
    clock.await_deadline(900)
    assert clock.now() == 900


def test_timers_run_once_in_order_of_time(memory):
    clock = Clock(memory, WORD, quiet=True)
    ran = []
    clock.call_later(200, lambda: ran.append("b"))
    clock.call_later(100, lambda: ran.append("a"))
    clock.call_later(200, lambda: ran.append("c"))
    assert clock.next_timer() == 100
    clock.run_timers()
    assert ran == []
    clock.advance(200)
    clock.run_timers()
    clock.run_timers()
    assert ran == ["a", "b", "c"]
    assert clock.next_timer() is None
