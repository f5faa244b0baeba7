# SPDX-License-Identifier: GPL-2.0-or-later
"""What a hit of each kind costs on this machine, measured in a kernel for the purpose.

To time the hits of the kernel that is looked at would change them: the shortest take a
tenth of a microsecond.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import thread_time
from typing import NamedTuple

from kpfs.backends.guest.box import Box
from kpfs.config import make
from kpfs.top.samples import Probe

CALLS = 500
TURNS = 8  # the least counts: what disturbs makes a turn longer
SETTLE = 20  # ticks until a jump is written


class Way(NamedTuple):
    """How a probe is hit, and the functions of the module hit_cost for it."""

    target: str
    loop: str
    jump: bool = False


STEPPED = Way("cost_stepped", "cost_loop_stepped")
BOOSTED = Way("cost_plain", "cost_loop")
JUMP = Way("cost_plain", "cost_loop", jump=True)
FTRACE = Way("cost_traced", "cost_loop_traced")
# by the kind of a probe, and by the boostable of one that is a breakpoint
KINDS = {"ftrace": FTRACE, "jump": JUMP}
BREAKPOINTS = {"1": BOOSTED, "0": STEPPED, "-1": STEPPED}


class Sort(NamedTuple):
    """What probes have in common whose hits cost the same."""

    way: Way
    type: str  # k, r or j
    event: bool  # a trace event without arguments, else an empty handler in a module


Costs = Mapping[Sort, float]  # microseconds


def sort_of(probe: Probe) -> Sort | None:
    """None for a probe that is off, or of which the files do not tell enough."""
    way = KINDS.get(probe.kind)
    if probe.kind == "breakpoint":
        way = BREAKPOINTS.get(probe.boostable)
    return Sort(way, probe.type, "/" in probe.owner) if way else None


def sorts_of(probes: Iterable[Probe]) -> set[Sort]:
    return {sort for probe in probes if (sort := sort_of(probe))}


def cost_of(probe: Probe, costs: Costs) -> float | None:
    """Microseconds of a hit; None where that was not measured."""
    sort = sort_of(probe)
    return costs.get(sort) if sort else None


def measure(sorts: Iterable[Sort]) -> dict[Sort, float]:
    """The costs of some sorts; each takes a kernel of its own, some 50 ms."""
    return {sort: _cost(sort) for sort in sorts}


def prepared(way: Way, probes: str, *, event: bool = False) -> Box:
    """A kernel with those probes: an event, or handlers of a module that do nothing.

    probes: letters of k, j and r, of which an event has one.
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
    """Processor seconds of one call in the loop."""
    times = []
    for _ in range(TURNS):
        start = thread_time()
        box.call(loop, CALLS)
        times.append(thread_time() - start)
    return min(times) / CALLS
