# SPDX-License-Identifier: GPL-2.0-or-later
"""The cost of a hit of each kind, measured on this machine in a kernel of its own.

The shortest hits take a tenth of a microsecond, and timing them in the watched kernel
would change that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import thread_time
from typing import NamedTuple

from kpfs.backends.guest.box import Box
from kpfs.config import make
from kpfs.top.samples import TopProbe

CALLS = 500
TURNS = 8  # the least is taken: a disturbance only makes a turn longer
SETTLE = 20  # ticks until a jump is written


class MeasuredHit(NamedTuple):
    """A way to hit a probe, and the functions of the module hit_cost for it."""

    target: str
    loop: str
    jump: bool = False


STEPPED = MeasuredHit("cost_stepped", "cost_loop_stepped")
BOOSTED = MeasuredHit("cost_plain", "cost_loop")
JUMP = MeasuredHit("cost_plain", "cost_loop", jump=True)
FTRACE = MeasuredHit("cost_traced", "cost_loop_traced")
# by a probe's kind, and for a breakpoint by its boostable
KINDS = {"ftrace": FTRACE, "jump": JUMP}
BREAKPOINTS = {"1": BOOSTED, "0": STEPPED, "-1": STEPPED}


class Sort(NamedTuple):
    """The properties of a probe that decide what a hit costs."""

    way: MeasuredHit
    type: str  # k, r or j
    event: bool  # a trace event without arguments, else an empty handler in a module


Costs = Mapping[Sort, float]  # microseconds


def sort_of(probe: TopProbe) -> Sort | None:
    """Return a probe's sort, None if it is off or the files tell too little."""
    way = KINDS.get(probe.kind)
    if probe.kind == "breakpoint":
        way = BREAKPOINTS.get(probe.boostable)
    return Sort(way, probe.type, "/" in probe.owner) if way else None


def sorts_of(probes: Iterable[TopProbe]) -> set[Sort]:
    return {sort for probe in probes if (sort := sort_of(probe))}


def cost_of(probe: TopProbe, costs: Costs) -> float | None:
    """Return the microseconds of a hit, None if they were not measured."""
    sort = sort_of(probe)
    return costs.get(sort) if sort else None


def measure(sorts: Iterable[Sort]) -> dict[Sort, float]:
    """Return the costs of some sorts; each takes a new kernel, some 50 ms."""
    return {sort: _cost(sort) for sort in sorts}


def prepared(way: MeasuredHit, probes: str, *, event: bool = False) -> Box:
    """Return a kernel with these probes: an event, or empty handlers of a module.

    probes: letters of k, j and r; an event has one of them.
    """
    # without ftrace sites, events may be anywhere
    config = make([("KPROBES_ON_FTRACE", way is FTRACE)])
    box = Box(1, config)
    if not way.jump:
        box.write("/sys/debug/kprobes-optimization", "0\n")
    handlers = "" if event else probes
    box.insmod("hit_cost", f"probes={handlers}", f"target={way.target}")
    if event:
        kind = "p" if probes == "k" else "r"
        box.write("/tracing/kprobe_events", f"{kind}:cost hit_cost:{way.target}\n")
        box.write("/tracing/events/kprobes/cost/enable", "1\n")
    for _ in range(SETTLE):
        box.kernel.guest.tick()
    return box


def _cost(sort: Sort) -> float:
    box = prepared(sort.way, sort.type, event=sort.event)
    try:
        armed = _least(box, sort.way.loop)
        box.write("/kprobes/enabled", "0\n")
        return max(armed - _least(box, sort.way.loop), 0.0) * 1e6
    finally:
        box.close()


def _least(box: Box, loop: str) -> float:
    """Return the processor seconds of one call in the fastest loop."""
    times = []
    for _ in range(TURNS):
        start = thread_time()
        box.call(loop, CALLS)
        times.append(thread_time() - start)
    return min(times) / CALLS
