# SPDX-License-Identifier: GPL-2.0-or-later
"""The records of several CPUs in the order in which they are read."""

import random
from itertools import islice

import pytest

from kpfs.engine.trace.text.lines import Lines
from kpfs.engine.trace.text.page_text import runs
from tests.unit.engine.trace.fakes import Trace, Writer, record


def sources(trace, rings, *, pages=None):
    lines = Lines(trace.ts)
    return [lines.pages(r.cpu, islice(r.unread(), pages)) for r in rings]


def read(found, rings):
    """(time, CPU, data) of all records."""
    return [
        (run.made.times[i], rings[run.source].cpu, run.data(i))
        for run in found
        for i in range(run.first, run.last)
    ]


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


@pytest.mark.parametrize("seed", range(4))
def test_cpus_are_merged_by_time(seed):
    filled = Filled(seed)
    rings = filled.rings
    found = list(runs(sources(filled.trace, rings)))
    expected = sorted(filled.written, key=lambda entry: entry[:2])
    assert read(found, rings) == expected
    assert len(found) < len(expected) / 2
    one = read(runs(sources(filled.trace, rings[1:2])), rings[1:2])
    assert one == [entry for entry in expected if entry[1] == 1]


def test_they_are_as_the_ring_has_them():
    filled = Filled(9)
    ring = filled.rings[1]
    found = [
        run.record(i, 1)
        for run in runs(sources(filled.trace, [ring]))
        for i in range(run.first, run.last)
    ]
    assert found == list(ring.records())


@pytest.mark.parametrize("pages", [0, 1, 2, 5])
def test_it_ends_where_something_may_follow(pages):
    filled = Filled(1)
    part = read(
        runs(sources(filled.trace, filled.rings, pages=pages), ()), filled.rings
    )
    whole = read(runs(sources(filled.trace, filled.rings)), filled.rings)
    assert part == whole[: len(part)]
    assert bool(part) == bool(pages)
    assert len(part) < len(whole)


def test_records_that_were_read_are_passed_over():
    filled = Filled(2)
    ring = filled.rings[0]
    entries = list(ring.records())
    ring.consume(300, entries[299])
    found = read(runs(sources(filled.trace, [ring])), [ring])
    assert [entry[0] for entry in found] == [entry[0] for entry in entries[300:]]


def test_lines_are_told_apart():
    filled = Filled(3)
    for run in runs(sources(filled.trace, filled.rings)):
        size = len(run.made.lines(run.first, run.last))
        assert run.up_to(size) == run.last
        assert run.up_to(size + 1) == run.last
        assert run.up_to(1) == run.first + 1
        assert run.made.lines(run.first, run.first + 1).count("\n") == 1
        assert len(run.made.lines(run.first, run.up_to(size // 2))) >= size // 2
