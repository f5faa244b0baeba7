# SPDX-License-Identifier: GPL-2.0-or-later
"""The records of several CPUs in the order in which they are read."""

import random
from itertools import islice

import pytest

from kpfs.engine.trace.text.blocks import Block, Sources, blocks
from kpfs.engine.trace.text.page_records import PageRecords, page_records
from tests.unit.engine.trace.fakes import Trace, Writer, record


def sources(rings, whole, *, pages=None):
    """Return all of the rings, or some pages of each."""
    some = [islice(ring.unread(), pages) for ring in rings]
    return Sources(some, whole, lambda _, page: page_records(page))


def numbered(part):
    """A text for each record: its length differs, and it tells the record's number."""
    return [
        "x" * (number % 3) + str(part.records.times[number]) + "\n"
        for number in range(part.first, part.last)
    ]


def made(parts):
    return Block(parts, numbered)


def read(rings, whole, *, pages=None):
    """(time, CPU, data) of all records that are found."""
    places = [
        block.at(i)
        for block, begin in blocks(sources(rings, whole, pages=pages), made)
        for i in range(begin, block.count)
    ]
    return [(p.time, rings[p.source].cpu, p.records.data(p.number)) for p in places]


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
    expected = sorted(filled.written, key=lambda entry: entry[:2])
    assert read(filled.rings, range(3)) == expected
    one = [entry for entry in expected if entry[1] == 1]
    assert read(filled.rings[1:2], [0]) == one


@pytest.mark.parametrize("pages", [0, 1, 2, 5])
def test_it_ends_where_something_may_follow(pages):
    filled = Filled(1)
    part, whole = (
        read(filled.rings, found, pages=number)
        for found, number in (((), pages), (range(3), None))
    )
    assert part == whole[: len(part)]
    assert bool(part) == bool(pages)
    assert len(part) < len(whole)


def test_records_that_were_read_are_passed_over():
    filled = Filled(2)
    ring = filled.rings[0]
    entries = list(ring.records())
    ring.consume(300, entries[299])
    assert [entry[0] for entry in read([ring], [0])] == [e[0] for e in entries[300:]]


def test_they_are_where_the_ring_has_them():
    filled = Filled(3)
    ring = filled.rings[1]
    found = blocks(sources([ring], [0]), made)
    entries = [block.at(i).entry(1) for block, _ in found for i in range(block.count)]
    assert entries == list(ring.records())


@pytest.mark.parametrize("seed", range(3))
def test_a_part_of_a_block(seed):
    rng = random.Random(seed)
    filled = Filled(seed)
    for block, _ in blocks(sources(filled.rings, range(3)), made):
        first = rng.randrange(block.count)
        rest = block.lines(first, block.count)
        assert block.up_to(first, len(rest)) == block.up_to(first, 1 << 30)
        for size in (-3, 1, len(rest) // 2):
            last = block.up_to(first, size)
            assert first < last <= block.count
            text = block.lines(first, last)
            assert rest.startswith(text)
            assert text.count("\n") == last - first
            assert len(text) >= size
            assert last - first == 1 or len(block.lines(first, last - 1)) < size
            places = [block.at(i) for i in range(first, last)]
            lasts = block.lasts(first, last)
            assert len(lasts) == len({place.source for place in places})
            for count, place in lasts:
                mine = [p.number for p in places if p.source == place.source]
                assert (count, place.number) == (len(mine), mine[-1])
            left = [
                (part.source, number)
                for part in block.left(last)
                for number in range(part.first, part.last)
            ]
            behind = [block.at(i) for i in range(last, block.count)]
            assert left == sorted((p.source, p.number) for p in behind)


def test_a_block_that_was_begun_is_gone_on_with():
    filled = Filled(1)
    found: dict[tuple[int, int], PageRecords] = {}

    def kept(source, page):
        return found.setdefault((source, page.number), page_records(page))

    pages = [list(ring.unread()) for ring in filled.rings]
    whole = [
        (block, begin) for block, begin in blocks(Sources(pages, range(3), kept), made)
    ]
    third = whole[2][0]
    for number in (1, third.count // 2, third.count - 1):
        read_so_far = {0: 0, 1: 0, 2: 0}
        for block, last in [(whole[0][0], None), (whole[1][0], None), (third, number)]:
            for count, place in block.lasts(0, last or block.count):
                read_so_far[place.source] += count
        rest = [
            list(skipped(some, read_so_far[source]))
            for source, some in enumerate(pages)
        ]
        (block, begin), *others = blocks(
            Sources(rest, range(3), kept), made, (third, number)
        )
        assert (block, begin) == (third, number)
        assert [b.lines(0, b.count) for b, _ in others] == [
            b.lines(0, b.count) for b, _ in whole[3:]
        ]
        # not where something else comes next
        (block, begin), *_ = blocks(
            Sources(pages, range(3), kept), made, (third, number)
        )
        assert (block.lines(0, block.count), begin) == (
            whole[0][0].lines(0, whole[0][0].count),
            0,
        )


def skipped(pages, count):
    """The pages behind so many records."""
    for page in pages:
        records = page_records(page)
        if count < len(records.stops):
            first = 4 + records.stops[count - 1] // 4 if count else page.first
            yield page._replace(first=first)
            count = 0
        else:
            count -= len(records.stops)
