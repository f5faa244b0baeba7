# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs explain --kernels``: a row for each point, a column for each kernel."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from kpfs.explain.advice import WHOLE
from kpfs.explain.explainer import modules_of
from kpfs.explain.kernels import Kernels, linux_explainer
from kpfs.host import jobs
from kpfs.linux.running.chosen import folder
from kpfs.linux.running.saved_kernel import SavedKernel

Fates = list[dict[str, Any]]  # Fate.for_json() of each point
CELLS = {"none": "accepted"}  # by tag; others stand for themselves
GAP = "  "
# ways to few functions in any kernel
USUALLY_CLOSED = "fmod_ret", "override"


def fates_in(kernels: Sequence[str], points: Sequence[str]) -> dict[str, Fates]:
    """Return the fates of points by kernels, several of which are read at once.

    Raises SetupError for a point that is none, and for a kernel that is not there.
    """
    saved = {kernel: SavedKernel(folder(kernel)) for kernel in kernels}
    # each compares itself with all, whose indexes are made at the same time, and are
    # read once
    lacking = [name for name in kernels if not saved[name].is_indexed]
    jobs.gathered(lacking, lambda name: bool(saved[name].functions), "indexing")
    for each in saved.values():
        _ = each.functions
    return jobs.gathered(kernels, lambda name: _fates(name, points, saved), "asking")


def _fates(kernel: str, points: Sequence[str], among: Kernels) -> Fates:
    lacking = dict[str, str]()
    with linux_explainer(kernel, modules_of(points), among, lacking) as explainer:
        explainer.check(points)
        fates = [explainer.fate(point).for_json() for point in points]
    for fate in fates:
        if told := lacking.get(fate["point"].partition(":")[0]):
            fate["hints"] = fate["hints"] or [told]
    return fates


def table(columns: dict[str, Fates]) -> str:
    """Return the table, with notes below it.  Kernels that do not differ share one."""
    merged = dict[str, tuple[list[str], Fates]]()
    for kernel, fates in columns.items():
        same = [{**fate, "address": 0, "by": [*fate["by"].values()]} for fate in fates]
        merged.setdefault(json.dumps(same), ([], fates))[0].append(kernel)
    notes = dict[str, int]()  # their numbers
    grid = [["", *(",".join(kernels) for kernels, _ in merged.values())]]
    for number, fate in enumerate(next(iter(columns.values()))):
        cells = [_cell(fates[number], notes) for _, fates in merged.values()]
        grid.append([fate["point"], *cells])
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    lines = [
        GAP.join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))
        for row in grid
    ]
    lines += [""] * bool(notes)
    lines += [f"[{number}] {note}" for note, number in notes.items()]
    closed = dict[tuple[str, str], list[str]]()
    for kernels, fates in merged.values():
        for each in _closed_in(fates):
            closed.setdefault(each, []).extend(kernels)
    ways = dict[str, list[str]]()
    for (way, why), kernels in closed.items():
        ways.setdefault(f"where {why}: {', '.join(kernels)}", []).append(way)
    lines += [f"no {', '.join(each)} {where}" for where, each in ways.items()]
    return "\n".join(line.rstrip() for line in lines)


def _cell(fate: dict[str, Any], notes: dict[str, int]) -> str:
    """Return what stands in a cell, whose notes are added if they are new."""
    numbers = []
    for note in _notes(fate):
        note = f"{fate['point']}: {note}"
        numbers.append(str(notes.setdefault(note, len(notes) + 1)))
    shown = fate["errno"] or CELLS.get(fate["tag"], fate["tag"])
    return f"{shown} [{','.join(numbers)}]" if numbers else shown


def _notes(fate: dict[str, Any]) -> list[str]:
    """Return what a user should know of a point, but not what is so in most places."""
    why = [fate["why"]] if fate["errno"] and not fate["hints"] else []
    why = [each for each in why if not each.startswith(WHOLE)]
    by = [
        f"{count} by their addresses: {words}"
        for words, count in Counter(fate["by"].values()).items()
    ]
    closed = [
        f"not by {way}: {told}"
        for way, told in fate["ways"].items()
        if told and not fate["errno"] and way not in USUALLY_CLOSED
        if not told.startswith(WHOLE)
    ]
    return [*why, *by, *closed, *fate["hints"]]


def _closed_in(fates: Fates) -> Iterable[tuple[str, str]]:
    """Return the ways that a whole kernel lacks, with why."""
    ways = [fate["ways"].items() for fate in fates]
    closed = [pair for each in ways for pair in each if pair[1].startswith(WHOLE)]
    return dict(closed).items()
