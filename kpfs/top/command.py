# SPDX-License-Identifier: GPL-2.0-or-later
"""The command ``kpfs top``: the probes of a mount, and how often they are hit."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kpfs.base.errors import SetupError, told_to_user
from kpfs.base.signals import SignalledError, held, raised
from kpfs.commands.mount_choice import find_tree
from kpfs.top.costs import Costs, cost_of, measure, sorts_of
from kpfs.top.samples import (
    COLUMNS,
    NUMBERS,
    Rate,
    Sampler,
    cells,
    is_guest_kernel,
    lost,
    read,
)

if TYPE_CHECKING:
    from argparse import Namespace

LIBRARIES = ("textual", "rich")  # the first brings the second


def main(arguments: Namespace) -> int:
    """Show the probes of a mount until the user leaves, or once.

    Raises SetupError without a mount, or if the package for the screen is missing.
    """
    tree = find_tree(arguments.dir, "top")
    with told_to_user():
        wants_screen = not arguments.once and not arguments.json
        if wants_screen and sys.stdin.isatty() and sys.stdout.isatty():
            return _show(tree, arguments.interval)
        rates, signalled = sample_twice(tree, arguments.interval)
        guest_kernel = is_guest_kernel(tree) and not signalled
    with held():
        costs = measure(sorts_of(rate.probe for rate in rates)) if guest_kernel else {}
        words = in_json(rates, costs) if arguments.json else in_words(rates, costs)
        print(words, flush=True)
        for line in lost(tree):  # not among the probes that a program reads
            print(f"lost: {line}", file=sys.stderr if arguments.json else sys.stdout)
    if signalled:
        raise signalled
    return 0


def sample_twice(
    tree: Path, interval: float
) -> tuple[list[Rate], SignalledError | None]:
    """Return the rates over a pause between two samples, and what cut it short."""
    sampler, signalled = Sampler(), None
    sampler.add(read(tree))
    try:
        with raised():
            time.sleep(interval)
    except SignalledError as error:
        signalled = error
    return sampler.add(read(tree)), signalled


def in_json(rates: list[Rate], costs: Costs) -> str:
    rows = []
    for rate in rates:
        cost = cost_of(rate.probe, costs)
        row = {
            **rate.probe._asdict(),
            "hits_per_s": round(rate.hits, 1),
            "nmissed_per_s": round(rate.missed, 1),
            "cost_us": None if cost is None else round(cost, 3),
        }
        rows.append(row)
    return json.dumps(rows, indent=2)


def in_words(rates: list[Rate], costs: Costs) -> str:
    rows: list[tuple[str, ...]] = [(*COLUMNS, "owner")]
    for rate in rates:
        shown = cells(rate, cost_of(rate.probe, costs))
        rows.append((*shown, rate.probe.owner))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        words = [
            cell.rjust(width) if number in NUMBERS else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(words).rstrip())
    return "\n".join(lines)


def _show(tree: Path, interval: float) -> int:
    try:
        from kpfs.top.screen import Screen
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in LIBRARIES:
            raise
        raise SetupError(
            f"top: the package {LIBRARIES[0]} is missing",
            "pip install 'kpfs[top]', or say --once",
        ) from None
    Screen(tree, interval).run()
    return 0
