# SPDX-License-Identifier: GPL-2.0-or-later
"""The reader of the per-CPU rings, against a writer that does as the guest does.

This also tests kpfs.engine.trace.ring.ring_buffer.
"""

import random
from itertools import islice

import pytest

from tests.fake import PAGE
from tests.unit.engine.trace.fakes import Writer

LENGTHS = (8, 16, 20, 112, 116, 900, 3000)


def content(ring):
    return [(ts, bytes(ring.pages[start:end])) for ts, _, start, end in ring.records()]


def payload(i, length):
    return i.to_bytes(4, "little") * (length // 4)


def test_empty_ring(trace):
    ring = trace.ts.ring.cpus[0]
    assert content(ring) == []
    assert ring.entries == ring.overrun == 0


def test_records_of_all_lengths_and_time_gaps(trace):
    trace.ts.ring.expand()
    writer = Writer(trace)
    rng = random.Random(1)
    expected, now = [], 1000
    for i in range(500):
        now += rng.choice((0, 1, 1000, (1 << 27) - 1, 1 << 27, 1 << 40))
        data = payload(i, rng.choice(LENGTHS))
        assert writer.write(now, data)
        expected.append((now, data))
    assert content(writer.ring) == expected
    assert writer.ring.entries == 500
    # nothing was consumed
    assert content(writer.ring) == expected


def test_oldest_are_lost_when_it_wraps(trace):
    writer = Writer(trace)
    expected = []
    for i in range(1000):
        writer.write(10 * i, payload(i, 16))
        expected.append((10 * i, payload(i, 16)))
    ring = writer.ring
    kept = content(ring)
    assert 0 < len(kept) < 500
    assert kept == expected[-len(kept) :]
    assert ring.entries == len(kept)
    assert ring.overrun == 1000 - len(kept)


def test_newest_are_lost_without_overwrite(trace):
    writer = Writer(trace)
    writer.ring.overwrite = False
    results = [writer.write(i, payload(i, 16)) for i in range(1000)]
    kept = content(writer.ring)
    assert [ts for ts, _ in kept] == list(range(len(kept)))
    assert writer.ring.stats().dropped == results.count(False) == 1000 - len(kept)


@pytest.mark.parametrize("seed", range(8))
def test_consuming_between_writes_gives_each_record_once(trace, seed):
    rng = random.Random(seed)
    writer = Writer(trace)
    ring = writer.ring
    now, written, taken = 0, [], []
    for i in range(3000):
        now += rng.choice((1, 5, 1 << 28))
        data = payload(i, rng.choice(LENGTHS[:5]))
        writer.write(now, data)
        written.append((now, data))
        if rng.random() < 0.02:
            batch = list(islice(ring.records(), rng.randrange(300)))
            for ts, _, start, end in batch:
                taken.append((ts, bytes(ring.pages[start:end])))
            if batch:
                ring.consume(len(batch), batch[-1])
        left = ring.entries
        if i % 50 == 0:
            assert left == len(content(ring))
        assert left == len(written) - len(taken) - ring.overrun
    kept = content(ring)
    assert kept == written[len(written) - len(kept) :]
    # taken is a part of what was written, in order, and none of what is left
    positions = {entry: i for i, entry in enumerate(written)}
    order = [positions[entry] for entry in taken]
    assert order == sorted(set(order))
    assert not set(order) & set(range(len(written) - len(kept), len(written)))
    assert len(taken) + ring.overrun + len(kept) == len(written)


def test_reset_forgets_all(trace):
    writer = Writer(trace)
    for i in range(400):
        writer.write(i, payload(i, 16))
    trace.ts.ring.reset()
    ring = writer.ring
    assert (ring.entries, ring.overrun, content(ring)) == (0, 0, [])
    writer.write(5, payload(1, 8))
    assert content(ring) == [(5, payload(1, 8))]
    assert ring.stats()[:5] == (1, 0, 12, 0, 0)


def test_resize_keeps_the_newest(trace):
    trace.ts.ring.resize(5 * 4080)
    writer = Writer(trace)
    written = []
    for i in range(1500):
        writer.write(i, payload(i, 16))
        written.append((i, payload(i, 16)))
    ring = writer.ring
    total = len(content(ring))
    ring.resize(ring.alloc_room(9))
    assert len(content(ring)) == total
    writer.write(2000, payload(7, 16))
    assert content(ring)[-1] == (2000, payload(7, 16))
    trace.ts.ring.resize(1)
    kept = content(ring)
    assert 0 < len(kept) < total
    assert kept[-2::-1] == written[: -len(kept) : -1]
    assert ring.entries == len(kept)
    assert trace.machine.read_u64(trace.runtime.cpus[0].addr + 72) == ring.addr


def test_sizes_are_those_of_the_kernel(trace):
    def kb(size):
        trace.ts.ring.resize(size)
        return trace.ts.ring.cpus[0].nr_pages * 4080 >> 10

    assert [kb(1024 * n) for n in (1, 4, 5, 8, 100)] == [7, 7, 7, 11, 103]


def test_pages_are_whole(trace):
    ring = trace.ts.ring.cpus[0]
    assert len(ring.pages) == 2 * PAGE
    assert trace.machine.read_u64(ring.addr) % PAGE == 0


def test_bytes_count_what_fills_up_a_page(trace):
    ring = trace.ts.ring.cpus[0]
    ring.overwrite = False
    while ring.write(payload(1, 900)):
        pass
    assert ring.stats().bytes == ring.nr_pages * (PAGE - 16)
    assert not ring.write(payload(2, 4))  # for which there would be room
    assert ring.stats().dropped == 2
    ring.overwrite = True
    assert ring.write(payload(3, 900))
    assert ring.stats().bytes == PAGE - 16 + 908
    assert len(ring.read_page()) == PAGE
    assert ring.stats().bytes == 908 + PAGE - 16 - 4 * 908


def test_a_page_is_read_as_far_as_there_is_room(trace):
    ring = trace.ts.ring.cpus[0]
    for i in range(3):
        ring.write(payload(i, 16))
    assert ring.read_page(19) == b""
    assert ring.entries == 3
    assert len(ring.read_page(45)) == PAGE
    assert ring.entries == 1
