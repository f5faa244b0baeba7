# SPDX-License-Identifier: GPL-2.0-or-later
"""The watchdog by itself, without a guest."""

import ctypes
import time

import pytest

from kpfs.emulator.libunicorn import Stopper
from kpfs.guest.emu.watchdog import Watchdog
from tests.unit.guest.bare import BareCpu


def test_without_timers(monkeypatch):
    """A C library that has none: then there is no watchdog."""
    monkeypatch.setattr("kpfs.guest.emu.watchdog._library", lambda: None)
    dog = Watchdog(0, 0)
    dog.wind()
    assert not dog.expired()
    dog.close()


def test_a_closed_one_bites_no_more():
    cpu = BareCpu(1).cpu
    cpu.watchdog.limit = 0.05
    cpu.watchdog.wind()
    cpu.close()
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass


def test_a_late_call_stops_nothing():
    """The C library's thread may come when the engine is no more."""
    stopped: list[int] = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_size_t)
    stop = kind(stopped.append)
    address = ctypes.cast(stop, ctypes.c_void_p).value
    first = Stopper(0x1000, address)
    call = kind(first.function)
    call(first.argument)
    assert stopped == [0x1000]
    first.end()
    later = [Stopper(0x2000, address) for _ in range(250)]
    assert len({each.argument for each in (first, *later)}) == 251
    call(first.argument)
    assert stopped == [0x1000]
    call(later[-1].argument)
    assert stopped == [0x1000, 0x2000]
    for each in later:
        each.end()


@pytest.mark.parametrize("limit", [0.5, 1.0, 5.0])
def test_it_is_wound_again_long_before_it_expires(limit):
    """Several threads of the process may work meanwhile."""
    dog = Watchdog(0, 0, limit)
    before = time.monotonic()
    dog.wind()
    assert dog.rewind_at - before < limit / 5
    dog.close()
