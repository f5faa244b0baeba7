# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the pages of this process that have memory.  Document: proc(5), pagemap."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from kpfs.base.units import PAGE_SIZE

PATH = "/proc/self/pagemap"
# The last byte of a page's entry: it is in memory or swapped out ...
POPULATED = re.compile(rb"[\x40-\xff]+")
# ... and in a private mapping of a file it was written, so it is no page of the file
WRITTEN = re.compile(rb"[\x40-\x5f\x80-\x9f\xc0-\xdf]+")
_ENTRY = 8


def runs(
    address: int, size: int, wanted: re.Pattern[bytes]
) -> Iterator[tuple[int, int]]:
    """Yield where runs of wanted pages begin and end, as numbers of pages from address.

    Raises OSError if the host does not tell.
    """
    want = size // PAGE_SIZE * _ENTRY
    with open(PATH, "rb", buffering=0) as file:
        raw = os.pread(file.fileno(), want, address // PAGE_SIZE * _ENTRY)
    if len(raw) < want:
        raise OSError(f"{PATH}: cut short")
    for run in wanted.finditer(raw[_ENTRY - 1 :: _ENTRY]):
        yield run.span()
