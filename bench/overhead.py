# SPDX-License-Identifier: GPL-2.0-or-later
"""The cost of a hit, in the columns of the documents of kprobes.

The table of 2005: k a kprobe, j a jprobe, r a return probe, kr and jr two of them on
one function.  The table of 2010: k, b a boosted kprobe (no single step), o an optimised
one, and r, rb, ro return probes of these kinds.  Handlers are C in a module and do
nothing.  Then the first table again where the function's entry has an ftrace site.
What counts is the shape: how the figures of one processor compare with one another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from time import thread_time

from bench.row import Row, least
from kpfs.top.costs import BOOSTED, FTRACE, JUMP, STEPPED, prepared

CALLS = 2_000
TURNS = 12  # for each repeat that is asked for
# row -> (way, probes); what the documents have, in us, by processor
ROWS = {
    "k": (STEPPED, "k"),
    "j": (STEPPED, "j"),
    "r": (STEPPED, "r"),
    "kr": (STEPPED, "kr"),
    "jr": (STEPPED, "jr"),
    "b": (BOOSTED, "k"),
    "o": (JUMP, "k"),
    "rb": (BOOSTED, "r"),
    "ro": (JUMP, "r"),
    **{f"ftrace.{probes}": (FTRACE, probes) for probes in ("k", "j", "r", "kr", "jr")},
}
DOCUMENTS: Mapping[str, Mapping[str, float]] = {
    "Pentium M": {"k": 0.57, "j": 1.00, "r": 0.92, "kr": 0.99, "jr": 1.40},
    "Opteron": {"k": 0.49, "j": 0.76, "r": 0.80, "kr": 0.82, "jr": 1.07},
    "POWER5": {"k": 0.77, "j": 1.31, "r": 1.26, "kr": 1.45, "jr": 1.99},
    "Xeon, 32 bits": {
        "k": 0.80,
        "b": 0.33,
        "o": 0.05,
        "r": 1.10,
        "rb": 0.61,
        "ro": 0.33,
    },
    "Xeon, 64 bits": {
        "k": 0.99,
        "b": 0.43,
        "o": 0.06,
        "r": 1.24,
        "rb": 0.68,
        "ro": 0.30,
    },
}
# the shape: how many times the one the other takes
SHAPE = (
    ("j", "k"), ("r", "k"), ("kr", "r"), ("jr", "k"),
    ("b", "k"), ("o", "b"), ("rb", "r"), ("ro", "rb"),
    ("ftrace.j", "ftrace.k"), ("ftrace.r", "ftrace.k"), ("ftrace.kr", "ftrace.r"),
)  # fmt: skip


def measure(repeats: int) -> dict[str, float]:
    """Microseconds of a hit, by row."""
    wanted = dict(ROWS)
    bare = {way: f"bare {way}" for way, _ in ROWS.values()}
    loops, boxes = {}, []
    try:
        for name, (way, probes) in [
            *wanted.items(),
            *((name, (way, "")) for way, name in bare.items()),
        ]:
            box = prepared(way, probes)
            boxes.append(box)
            loops[name] = partial(box.call, way.loop, CALLS)
        times = least(list(loops.values()), TURNS * repeats, thread_time)
        took = dict(zip(loops, times, strict=True))
        return {
            name: (took[name] - took[bare[way]]) / CALLS * 1e6
            for name, (way, _) in wanted.items()
        }
    finally:
        for box in boxes:
            box.close()


def documented(name: str) -> str:
    """The documents' figures for a row."""
    if name == "ftrace.kr":  # a return probe alone does without
        return "a kprobe's handler wants a whole struct pt_regs"
    found = {cpu: row[name] for cpu, row in DOCUMENTS.items() if name in row}
    return ", ".join(f"{us:.2f} {cpu}" for cpu, us in found.items())


def rows(repeats: int) -> Iterator[Row]:
    """The time of a hit of each kind, and the ratios that make the shape."""
    cost = measure(repeats)
    for name, us in cost.items():
        yield Row(f"overhead.{name}", us, "us", note=documented(name))
    for name, other in SHAPE:
        yield Row(f"overhead.{name}/{other}", cost[name] / cost[other], "x")


GROUPS = {"overhead": rows}
