# SPDX-License-Identifier: GPL-2.0-or-later
"""Probes whose handlers are C in a module, at a function's entry, by breakpoints.

The kernel's documentation has figures for an Opteron 246 of 2005, in us: a kprobe 0.49,
a jprobe 0.76, a return probe 0.80, kprobe and return probe 0.82, jprobe and return
probe 1.07.  Other processors there have other figures and about the same ratios.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from time import thread_time

from bench.row import Row, least
from kpfs.backends.guest.box import Box

CALLS = 2_000
TURNS = 20  # for each repeat that is asked for
OPTERON = {"k": 0.49, "j": 0.76, "r": 0.80, "kr": 0.82, "jr": 1.07}
# at most so many times a kprobe
RATIOS = {"j": 2.0, "r": 2.0, "kr": 2.0, "jr": 2.8}


def measure(repeats: int) -> list[float]:
    """Seconds of a loop without probes, and with each combination of them."""
    boxes = {}
    try:
        for probes in ("", *OPTERON):
            box = boxes[probes] = Box(1)
            box.write("/sys/debug/kprobes-optimization", "0\n")
            box.insmod("hit_cost", f"probes={probes}")
        loops = [partial(box.call, "cost_loop", CALLS) for box in boxes.values()]
        return least(loops, TURNS * repeats, thread_time)
    finally:
        for box in boxes.values():
            box.close()


def rows(repeats: int) -> Iterator[Row]:
    """The time of a hit of each combination, and its ratio to that of a kprobe."""
    times = measure(repeats)
    bare, *probed = (t / CALLS * 1e6 for t in times)
    cost = {name: t - bare for name, t in zip(OPTERON, probed, strict=True)}
    for name, us in cost.items():
        yield Row(f"module.{name}", us, "us", note=f"{OPTERON[name]:.2f} on an Opteron")
    ratio, note = cost["kr"] / cost["r"], "1.02 on an Opteron"
    yield Row("module.kr/r", ratio, "x", 1.2, note=note)
    for name, limit in RATIOS.items():
        yield Row(f"module.{name}/k", cost[name] / cost["k"], "x", limit)


GROUPS = {"modules": rows}
