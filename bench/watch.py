# SPDX-License-Identifier: GPL-2.0-or-later
"""The cost of watched memory for code that does not touch it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from time import thread_time

from bench.engine import Bench
from bench.guestcode import Loop
from bench.row import Row, least

CALLS = 2_000
TURNS = 20  # for each repeat that is asked for
VARIABLE = "init_uts_ns"  # which the loop does not touch


def rows(repeats: int) -> Iterator[Row]:
    """Measure a loop's slowdown while something is watched, and afterwards."""
    bench = Bench()
    machine = bench.machine
    loop = partial(Loop(machine), CALLS)
    addr = machine.kallsyms.lookup_name(VARIABLE)[0].addr
    first = machine.memory.translate(addr, 8)

    def took(*ranges: tuple[int, int]) -> float:
        machine.cpus.hook_memory(ranges)
        loop()
        return least([loop], TURNS * repeats, thread_time)[0]

    before, watched, after = took(), took((first, first + 7)), took()
    yield Row("watch_set", watched / before, "x", note="all code, while one is set")
    yield Row("watch_unset", after / before, "x", note="after it is taken away")


GROUPS = {"watch": rows}
