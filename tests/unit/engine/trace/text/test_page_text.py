# SPDX-License-Identifier: GPL-2.0-or-later
"""The records of several CPUs in the order in which they are read."""

import random
from itertools import islice

import pytest

from kpfs.engine.trace.text.lines import Lines
from kpfs.engine.trace.text.page_text import Run, merged
from tests.unit.engine.trace.fakes import Trace, Writer, record


def sources(trace, rings, *, pages=None):
    lines = Lines(trace.ts)
    return [lines.pages(r.cpu, islice(r.unread(), pages)) for r in rings]


def read(found, rings):
    """(time, CPU, data) of all records."""
    places = [run.at(i) for run in found for i in range(run.count)]
    return [(p.time, rings[p.source].cpu, p.data()) for p in places]


class Filled:
    """Some CPUs' rings, and what was written into them."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.trace = Trace(nr_cpus=3)
        self.trace.ts.ring.expand()
        writers = [Writer(self.trace, cpu) for cpu in range(3)]
        self.written, now = [], 0
        for i in range(5000):
            now += rng.choice((0, 0, 1))
            cpu = rng.choice((0, 0, 0, 1, 2)) if i % 1000 < 500 else 1
            data = record(4000, i, pid=i % 7)
            writers[cpu].write(now, data)
            self.written.append((now, cpu, data))
        self.rings = self.trace.ts.ring.cpus


@pytest.mark.parametrize("mix", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_cpus_are_merged_by_time(seed, mix):
    filled = Filled(seed)
    rings = filled.rings
    found = list(merged(sources(filled.trace, rings), range(3), mix=mix))
    expected = sorted(filled.written, key=lambda entry: entry[:2])
    assert read(found, rings) == expected
    assert len(found) < len(expected) / (10 if mix else 2)
    assert {type(run) is Run for run in found} == ({True, False} if mix else {True})
    one = read(merged(sources(filled.trace, rings[1:2]), [0]), rings[1:2])
    assert one == [entry for entry in expected if entry[1] == 1]


def test_they_are_as_the_ring_has_them():
    filled = Filled(9)
    ring = filled.rings[1]
    (*_, run) = merged(sources(filled.trace, [ring]), [0])
    records = [run.at(i).record(1) for i in range(run.count)]
    assert records == list(ring.records())[-run.count :]


@pytest.mark.parametrize("pages", [0, 1, 2, 5])
def test_it_ends_where_something_may_follow(pages):
    filled = Filled(1)
    rings = filled.rings
    part = read(merged(sources(filled.trace, rings, pages=pages), ()), rings)
    whole = read(merged(sources(filled.trace, rings), range(3)), rings)
    assert part == whole[: len(part)]
    assert bool(part) == bool(pages)
    assert len(part) < len(whole)


def test_records_that_were_read_are_passed_over():
    filled = Filled(2)
    ring = filled.rings[0]
    entries = list(ring.records())
    ring.consume(300, entries[299])
    found = read(merged(sources(filled.trace, [ring]), [0]), [ring])
    assert [entry[0] for entry in found] == [entry[0] for entry in entries[300:]]


@pytest.mark.parametrize("seed", range(3))
def test_parts_of_what_was_found(seed):
    filled = Filled(seed)
    for run in merged(sources(filled.trace, filled.rings), range(3)):
        whole = run.text(run.count)
        assert run.up_to(len(whole)) == run.up_to(1 << 40) == run.count
        for size in (-3, 1, len(whole) // 3, len(whole) // 2):
            count = run.up_to(size)
            text = run.text(count)
            assert whole.startswith(text)
            assert text.count("\n") == count
            assert len(text) >= size
            assert count == 1 or len(run.text(count - 1)) < size
            parts = run.parts(count)
            assert sum(number for number, _ in parts) == count
            places = [run.at(i) for i in range(count)]
            for _, last in parts:
                numbers = [p.number for p in places if p.source == last.source]
                assert last.number == max(numbers)
