# SPDX-License-Identifier: GPL-2.0-or-later
"""The rows of the table, and the timing of functions in turn within one run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple


class Row(NamedTuple):
    """A figure. Names are stable, because later runs are compared by them."""

    name: str
    value: float | None  # None: what is measured is not there
    unit: str
    note: str = ""
    wrong: bool = False  # the measured operation failed


Group = Callable[[int], Iterator[Row]]
Clock = Callable[[], float]
Functions = Sequence[Callable[[], object]]


def seconds(function: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    """Return how long one call takes."""
    start = clock()
    function()
    return clock() - start


def medians(
    functions: Functions,
    repeats: int,
    clock: Clock = time.perf_counter,
) -> list[float]:
    """Median seconds of functions called in turn: what disturbs, disturbs all."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for function, taken in zip(functions, times, strict=True):
            taken.append(seconds(function, clock))
    return [statistics.median(taken) for taken in times]


def least(
    functions: Functions,
    repeats: int,
    clock: Clock = time.perf_counter,
) -> list[float]:
    """Least seconds of functions called in turn, each a millisecond or two.

    For what costs a microsecond: a machine that is now fast, now twice as slow, gives
    the same again only so.
    """
    times = [float("inf")] * len(functions)
    for _ in range(repeats):
        for i, function in enumerate(functions):
            times[i] = min(times[i], seconds(function, clock))
    return times
