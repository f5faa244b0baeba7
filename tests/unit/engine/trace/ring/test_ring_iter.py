# SPDX-License-Identifier: GPL-2.0-or-later
"""A place in a ring where somebody reads while others write, consume and clear."""

import random

import pytest

from kpfs.engine.trace.ring.cpu_ring import CpuRing, entries
from kpfs.engine.trace.ring.ring_iter import RingIter
from tests.unit.engine.trace.fakes import Writer


def fill(writer, rng, now, count):
    """Write so many records; returns when the last one was, and all of them."""
    written = []
    for _ in range(count):
        now += rng.choice((1, 1, 1000, 1 << 28))
        data = rng.randbytes(4 * rng.randrange(1, 60))
        assert writer.write(now, data)
        written.append((now, data))
    return now, written


def read(it, limit):
    """Return all that one pass gives."""
    found = []
    pages, whole = it.pages(limit)
    for page in pages:
        for ts, start, stop in entries(page.words(), page.first, page.end, page.ts):
            found.append((ts, page.data[4 * start : 4 * stop]))
            it.advance(page.number, page.stamp, stop, ts)
    return found, whole


def consume(ring, count):
    records = [record for record, _ in zip(ring.records(), range(count), strict=False)]
    ring.consume(len(records), records[-1])


@pytest.mark.parametrize("seed", range(5))
def test_it_gives_what_is_there_page_by_page(trace, seed):
    rng = random.Random(seed)
    trace.ts.ring.resize(100_000)
    writer = Writer(trace)
    it, now, expected, got = RingIter(writer.ring), 0, [], []
    for _ in range(40):
        now, written = fill(writer, rng, now, rng.randrange(20))
        expected += written
        got += read(it, rng.randrange(1, 3))[0]
    whole = False
    while not whole:
        found, whole = read(it, 2)
        got += found
    assert got == expected
    assert not it.missed
    assert writer.ring.overrun == 0


def test_it_copies_no_more_than_it_is_asked_for(trace, monkeypatch):
    trace.ts.ring.expand()
    writer = Writer(trace)
    fill(writer, random.Random(1), 0, 5000)
    it, copied, original = RingIter(writer.ring), [], CpuRing.copy

    def copy(*args):
        copied.append(args)
        return original(*args)

    monkeypatch.setattr(CpuRing, "copy", copy)
    pages, whole = it.pages(3)
    assert (len(pages), len(copied), whole) == (3, 3, False)


def test_records_lost_to_newer_ones_are_missed(trace):
    writer, rng = Writer(trace), random.Random(1)
    now, _ = fill(writer, rng, 0, 5)
    it = RingIter(writer.ring)
    assert len(read(it, 9)[0]) == 5
    now, written = fill(writer, rng, now, 500)
    found, whole = read(it, 9)
    assert it.missed
    assert whole
    assert 0 < len(found) < 200
    assert found == written[-len(found) :]


def test_a_ring_that_was_empty_has_lost_nothing(trace):
    writer = Writer(trace)
    it = RingIter(writer.ring)
    assert read(it, 9) == ([], True)
    _, written = fill(writer, random.Random(1), 0, 3)
    assert read(it, 9) == (written, True)
    assert not it.missed


def test_after_a_reset_it_stands_behind_what_is_new(trace):
    writer, rng = Writer(trace), random.Random(1)
    now, _ = fill(writer, rng, 0, 20)
    it = RingIter(writer.ring)
    read(it, 9)
    before = it.state()
    writer.ring.reset()
    assert it.state() != before
    assert read(it, 9) == ([], True)
    now, written = fill(writer, rng, now, 1)
    assert read(it, 9) == ([], True)
    it.reset()
    assert read(it, 9) == (written, True)


def test_consuming_sends_it_back_to_the_oldest(trace):
    writer = Writer(trace)
    trace.ts.ring.expand()
    _, written = fill(writer, random.Random(1), 0, 300)
    it = RingIter(writer.ring)
    assert len(read(it, 2)[0]) < 300
    for count in (7, 100):
        before = it.state()
        consume(writer.ring, count)
        assert it.state() != before
        written = written[count:]
        assert read(it, 99) == (written, True)
        assert read(it, 99) == ([], True)


def test_a_place_within_a_page_is_found_without_the_last_consumer(trace):
    writer = Writer(trace)
    _, written = fill(writer, random.Random(1), 0, 9)
    consume(writer.ring, 3)
    consume(writer.ring, 1)
    writer.ring._cursor = (-1, -1, 0)
    assert read(RingIter(writer.ring), 9) == (written[4:], True)


@pytest.mark.parametrize("seed", range(20))
def test_older_ones_are_passed_over(trace, seed):
    rng = random.Random(seed)
    trace.ts.ring.resize(30_000)
    writer = Writer(trace)
    now, written = fill(writer, rng, 0, 150)
    gone = rng.choice((0, 1, 60))
    if gone:
        consume(writer.ring, gone)
    written = written[gone:]
    start = rng.choice((0, now + 1, *(ts for ts, _ in written)))
    it = RingIter(writer.ring)
    older = [ts for ts, _ in written if ts < start]
    assert it.skip_before(start) == len(older)
    assert read(it, 99)[0] == written[len(older) :]


def test_a_ring_keeps_its_size_while_it_is_read(trace):
    ring = trace.ts.ring
    ring.cpus[1].begin_reading()
    size = ring.cpus[0].nr_pages
    with pytest.raises(Exception, match="EBUSY"):
        ring.resize(100_000)
    assert [cpu.nr_pages for cpu in ring.cpus] == [size, size]
    ring.resize(100_000, 0)
    ring.cpus[1].end_reading()
    ring.resize(100_000)
    assert ring.cpus[1].nr_pages > size


def test_it_knows_whether_what_was_behind_it_is_still_there(trace):
    """Added records do not matter; cleared, consumed or overwritten ones do."""
    ring, rng = trace.ts.ring, random.Random(1)
    ring.resize(20_000)
    writer = Writer(trace)
    it = RingIter(writer.ring)
    assert it.stands()  # nothing is there
    now, _ = fill(writer, rng, 0, 50)
    assert not it.stands()  # nothing tells what was there in between
    read(it, 1)
    now, _ = fill(writer, rng, now, 10)
    assert it.stands()
    for change in (
        writer.ring.reset,
        lambda: consume(writer.ring, 20),
        lambda: fill(writer, rng, 1 << 50, 2000),
    ):
        ring.reset()
        now, _ = fill(writer, rng, now, 30)
        it = RingIter(writer.ring)
        read(it, 1)
        assert it.stands()
        change()
        fill(writer, rng, 1 << 51, 9)
        assert not it.stands()
        other = RingIter(writer.ring)
        other.advance(*it.place())
        assert other.place() == it.place()
