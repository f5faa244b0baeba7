# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of verdicts on the functions of a dump, in the form of verdicts.tsv."""

from __future__ import annotations

from collections.abc import Iterator

from kpfs.base.errors import MemoryFault
from kpfs.engine.state import State
from kpfs.explain.image import DumpedImage
from kpfs.explain.verdicts import judge

OFFSETS = range(41)  # offsets in each function
COLUMNS = ("symbol", "addr", "size", "offset", "verdict", "tags")


def table(st: State, image: DumpedImage) -> Iterator[tuple[str, ...]]:
    """Rows in the columns of verdicts.tsv: each function of the dump, by name.

    Where the bytes that decide are not known, verdict and tag are "?".
    """
    for fn in sorted(image.functions):
        for offset in OFFSETS:
            try:
                verdict = judge(st, image.judge, fn.addr + offset)
            except MemoryFault:
                words = ("?", "?")
            else:
                words = (verdict.name, verdict.tag)
            yield fn.symbol, f"{fn.addr:x}", str(fn.size), str(offset), *words
