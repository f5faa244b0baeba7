# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs top``: the probes of a tree, and how often they are hit."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from kpfs.host import mounts
from kpfs.host.errors import SetupError
from kpfs.top.samples import COLUMNS, Rate, Sampler, cells, read

LIBRARY = "textual"


def main(name: str, *, once: bool, as_json: bool, interval: float) -> int:
    """Show the probes of a tree until somebody leaves, or once.

    SetupError where there is no tree, or nothing to show it with.
    """
    tree = find_tree(name)
    try:
        if not once and not as_json:
            return _show(tree, interval)
        rates = sample_twice(tree, interval)
    except OSError as error:
        raise SetupError(f"{error.filename}: {error.strerror}") from None
    print(in_json(rates) if as_json else in_words(rates))
    return 0


def find_tree(name: str) -> Path:
    """The tree that is meant: the named one, that of kpfs run, or the only mount."""
    if name:
        tree = Path(name)
    elif "KPFS" in os.environ:
        tree = Path(os.environ["KPFS"])
    else:
        served = [entry for entry in mounts.table() if mounts.served_by(entry.source)]
        trees = sorted({entry.target for entry in served})
        if len(trees) != 1:
            found = ", ".join(trees) or "nothing is mounted (kpfs mount DIR)"
            raise SetupError(f"top: say which DIR: {found}")
        tree = Path(trees[0])
    if not (tree / "kprobes/list").exists():
        raise SetupError(f"top: {tree}: no files of kpfs")
    return tree


def sample_twice(tree: Path, interval: float) -> list[Rate]:
    """The rates in the time that passes meanwhile."""
    sampler = Sampler()
    sampler.add(read(tree))
    time.sleep(interval)
    return sampler.add(read(tree))


def in_json(rates: list[Rate]) -> str:
    rows = [
        {
            **rate.probe._asdict(),
            "hits_per_s": round(rate.hits, 1),
            "nmissed_per_s": round(rate.missed, 1),
        }
        for rate in rates
    ]
    return json.dumps(rows, indent=2)


def in_words(rates: list[Rate]) -> str:
    rows = [(*COLUMNS, "owner"), *((*cells(rate), rate.probe.owner) for rate in rates)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        words = [
            cell.rjust(width) if 4 <= number < 8 else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(words).rstrip())
    return "\n".join(lines)


def _show(tree: Path, interval: float) -> int:
    try:
        from kpfs.top.screen import Screen
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != LIBRARY:
            raise
        raise SetupError(
            f"top: the package {LIBRARY} is missing",
            "pip install 'kpfs[top]', or say --once",
        ) from None
    Screen(tree, interval).run()
    return 0
