# SPDX-License-Identifier: GPL-2.0-or-later
"""Stops for a debugger in the guest kernel."""

import pytest

from kpfs.backends.guest.box import Box
from kpfs.emulator.stops import Stop, StopReason


@pytest.fixture
def box():
    made = Box()
    yield made
    made.close()


def reads(box):
    """Have the guest do something that shows in a trace; return all that shows."""
    box.write("/tracing/kprobe_events", "p:k/e vfs_read count=%dx\n")
    box.write("/tracing/events/k/e/enable", "1\n")
    for _ in range(3):
        box.read("/tracing/kprobe_events")
    box.write("/tracing/events/k/e/enable", "0\n")
    return box.read("/tracing/trace"), box.kernel.guest.cpus.blocks


def test_a_place_at_a_probe_stops_and_changes_nothing(box):
    guest = box.kernel.guest
    seen = []
    stops = guest.cpus.debug()

    def on_stop(stop):
        ip = guest.cpus.read_reg(16)
        seen.append((stop.why, stop.address, ip, guest.current().comm))

    stops.on_stop = on_stop
    address = box.address("vfs_read")
    stops.insert(address)
    stopped = reads(box)
    other = Box()
    assert stopped == reads(other)
    other.close()
    assert "k:" not in stopped[0]
    assert stopped[0].count(" e: ") == 6
    assert len(seen) >= 3
    assert {one[:3] for one in seen} == {(StopReason.PLACE, address, address)}


def test_steps_through_a_hit_change_nothing(box):
    guest = box.kernel.guest
    seen = []
    stops = guest.cpus.debug()
    address = box.address("vfs_read")

    def on_stop(stop):
        seen.append(stop.address)
        stops.stepping = len(seen) % 40 != 0

    stops.on_stop = on_stop
    stops.insert(address)
    stopped = reads(box)
    other = Box()
    assert stopped == reads(other)
    other.close()
    assert len(seen) > 100
    assert len(set(seen)) > 20


def test_an_access_stops_behind_its_instruction(box):
    guest = box.kernel.guest
    seen: list[Stop] = []
    stops = guest.cpus.debug()
    stops.on_stop = seen.append
    at = box.address("console_printk")
    physical = guest.memory.translate(at, 8)
    stops.watch(1, physical, physical + 3, reads=False, writes=True)
    value = guest.read(at, 8)
    for offset in (-4, 0, 4):
        guest.call(box.address("memcpy"), at + offset, at + offset, 4)
    assert guest.read(at, 8) == value
    assert [(stop.why, stop.watch) for stop in seen] == [(StopReason.ACCESS, 1)] * len(
        seen
    )
    assert {stop.accessed for stop in seen} <= set(range(physical, physical + 4))
    assert 1 <= len(seen) <= 4
    stops.unwatch(1)
    seen.clear()
    assert reads(box)
    assert not seen
