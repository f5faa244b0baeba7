# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of what differs from Linux, differs.tsv, and the page that is made from it.

The page is docs/reference/differs.md. The tests take from the table which recorded
cases fail and which files are absent, ``kpfs doctor`` what this host lacks.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from kpfs.base.programs import search_path

TABLE = Path(__file__).with_name("differs.tsv")
FIELDS = 11  # fields of a row; the last three may be left out
EMPTY = "-"
KERNELS = {"guest": "guest", "linux": "Linux", "both": "both"}
# what holds on a mount holds by libfuse (--transport) too; libfuse: there alone
PLACES = ("mount", "libfuse", "run", "inside")
PAGE = """\
# Look up what differs from Linux

On this page you find what kpfs does otherwise than Linux 6.1, and where. The *guest*
kernel is kpfs's own; a *Linux* kernel is one of a distribution, which `--kernel` puts
behind the files. The last column names the command that does as Linux, where there is
one; other Linux kernels may stand in for 6.12. `kpfs doctor` shows the rows that hold
on your host alone. Where documents differ from Linux 6.1, [documents and
kernel](documents.md) says which of them kpfs follows.
"""
COLUMNS = "| Linux | kpfs | kernel | where | way out |\n|---|---|---|---|---|\n"


class Difference(NamedTuple):
    """A row of the table."""

    section: str
    kernel: str  # a key of KERNELS
    places: tuple[str, ...]  # some of PLACES
    host: str  # KIND:NAME of what a host lacks where this holds; "": on every host
    files: tuple[str, ...]  # absent files of tracefs
    cases: Mapping[str, tuple[str, ...]]  # place -> recorded cases that fail there
    linux: str
    here: str
    out: str = ""  # what to use instead
    # what the kernel lacks, as a hint calls it; {}: the last part of the path
    lacked: str = ""
    met: tuple[str, ...] = ()  # see kpfs.manual.lacks


def differences() -> Iterator[Difference]:
    """Read the table."""
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        cells = ["" if cell == EMPTY else cell for cell in line.split("\t")]
        cells += [""] * (FIELDS - len(cells))
        section, kernel, places, host, files, cases, linux, here, *hint = cells
        out, lacked, met = hint
        yield Difference(
            section,
            kernel,
            PLACES if places == "all" else tuple(places.split()),
            host,
            tuple(files.split()),
            {
                place: tuple(numbers.split(","))
                for place, numbers in (case.split(":") for case in cases.split())
            },
            linux,
            here,
            out,
            lacked,
            tuple(met.split()),
        )


def _older_than(release: str) -> bool:
    def numbers(text: str) -> list[int]:
        return [int(number) for number in re.findall(r"\d+", text)[:2]]

    return numbers(os.uname().release) < numbers(release)


LACKS: Mapping[str, Callable[[str], bool]] = {
    "machine": lambda name: os.uname().machine != name,
    "release": _older_than,
    "program": lambda name: shutil.which(name, path=search_path()) is None,
    "module": lambda name: find_spec(name) is None,
}


def on_this_host() -> Iterator[Difference]:
    """Yield the differences that come from what this host lacks."""
    for row in differences():
        kind, _, name = row.host.partition(":")
        if kind and LACKS[kind](name):
            yield row


def page() -> str:
    """Return the text of docs/reference/differs.md."""
    parts = [PAGE]
    for section, rows in groupby(differences(), key=lambda row: row.section):
        parts.append(f"\n## {section}\n\n{COLUMNS}")
        for row in rows:
            here = row.here
            if row.files:
                names = ", ".join(f"`{name}`" for name in row.files)
                here += f" Absent: {names}."
            where = "everywhere" if row.places == PLACES else ", ".join(row.places)
            kernel = KERNELS[row.kernel]
            parts.append(f"| {row.linux} | {here} | {kernel} | {where} | {row.out} |\n")
    return "".join(parts)
