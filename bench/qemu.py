# SPDX-License-Identifier: GPL-2.0-or-later
"""The hits of the group ``hits`` beside those of a Linux 6.1 that QEMU emulates.

In QEMU a program calls getppid(2) and reads the clock of its machine, which goes on
while other processes have the processor; hence the least of some rounds is taken. Here
a loop of guest code calls the function behind getppid(2), and the median of this
thread's time is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import thread_time

from bench import qemu_kernel
from bench.engine import Bench, Place, find, is_boosted, is_jump, per_hit, with_event
from bench.guestcode import CALLS, TARGETS, Loop
from bench.row import Row, medians

KERNEL = "6.1"
KINDS = ("boosted", "optimized", "ftrace", "return")


def ours(repeats: int) -> dict[str, float]:
    """Microseconds of a call without a probe, and of the hits over it."""
    bench = Bench()
    loop = Loop(bench.machine)
    loop()
    (base,) = medians([loop], repeats, thread_time)
    took = {"base": base / CALLS * 1e6}
    entry = Place(TARGETS[0], 0)
    places = {
        "optimized": find(bench, lambda _probe: is_jump(bench)),
        "ftrace": entry,
    }
    for kind, place in places.items():
        if place is not None:
            took[kind] = per_hit(bench, with_event(bench, place), repeats)
    took["return"] = per_hit(bench, with_event(bench, entry, "r"), repeats)
    bench.store("/sys/debug/kprobes-optimization", "0")
    place = find(bench, is_boosted)
    if place is not None:
        took["boosted"] = per_hit(bench, with_event(bench, place), repeats)
    return took


def against(repeats: int) -> Iterator[Row]:
    """Yield the rows of theirs, with ours in the note. NotHereError."""
    real, mine = qemu_kernel.figures(KERNEL), ours(repeats)
    base = real["base"]
    yield Row("qemu_getppid", base, "us", note=f"ours: {mine['base']:.3f}")
    for kind in KINDS:
        took = real.get(kind)
        over = None if took is None else took - base
        note = f"ours: {mine[kind]:.3f}" if kind in mine else ""
        if over and kind in mine:
            note += f", {over / mine[kind]:.1f} times as fast"
        yield Row(f"qemu_hit_{kind}_event", over, "us", note=note)
