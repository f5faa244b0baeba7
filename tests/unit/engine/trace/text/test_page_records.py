# SPDX-License-Identifier: GPL-2.0-or-later
"""The positions of a page's records, compared with the ring's."""

import random

import pytest

from kpfs.engine.trace.text.page_records import page_records
from tests.unit.engine.trace.fakes import Trace, Writer


class Pages:
    """A ring that is written, and what is known of its pages."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.trace = Trace(nr_cpus=1)
        self.trace.ts.ring.resize(20_000)
        self.ring, self.writer = self.trace.ts.ring.cpus[0], Writer(self.trace)
        self.known, self.now = {}, 0

    def write(self):
        rng = self.rng
        sizes = rng.choice(((8,), (8,), (8, 20, 112, 116, 400)))
        for _ in range(rng.choice((1, 20, 300))):
            self.now += rng.choice((0, 1, 700, 1 << 30) if len(sizes) > 1 else (0, 700))
            size = rng.choice(sizes)
            self.writer.write(self.now, rng.randbytes(size))

    def check(self):
        expected = [
            (time, bytes(self.ring.pages[start:end]))
            for time, _, start, end in self.ring.records()
        ]
        found = []
        for page in self.ring.unread():
            records = page_records(page, self.known.get(page.number))
            again = page_records(page, records)
            assert again is records
            assert records == page_records(page)
            self.known[page.number] = records
            found += [(t, records.data(i)) for i, t in enumerate(records.times)]
        assert found == expected


@pytest.mark.parametrize("seed", range(10))
def test_all_are_found_also_where_a_page_has_grown_or_is_another_one(seed):
    pages = Pages(seed)
    for _ in range(40):
        pages.write()
        pages.check()
        if pages.rng.random() < 0.05:
            pages.ring.reset()
    assert pages.ring.overrun or pages.ring.generation
