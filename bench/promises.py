# SPDX-License-Identifier: GPL-2.0-or-later
"""The promises of kpfs, how each is held, and what was last measured of it.

The promises are rows of promises.tsv beside this. What was measured is in docs/results:
a file for each topic, with the newest figure of each name. docs/promises.md is made
from both. ``scripts/bench --promises`` measures again, and with ``--save`` keeps what
it found.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import subprocess
import textwrap
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import NamedTuple

from bench.command import ROOT
from bench.row import Row

TABLE = Path(__file__).with_name("promises.tsv")
RESULTS = ROOT / "docs" / "results"
SAVED = RESULTS / "bench.json"
PAGE_FILE = ROOT / "docs" / "promises.md"
EMPTY = "-"
MOMENT = 0.5  # s for a look at how busy the machine is
IDLE_TICKS, MOSTLY = 3, 0.8  # the place of idle time, and its share
WIDTH = 100
BOUND = re.compile(r"(\w+)/([\w./]+)(<=|>=)([\d.]+)(\S*)")
UNITS = {"x": "times", "k/s": "thousand a second"}  # as sentences have them
TITLE = "# What kpfs promises"
ABOUT = """\
On this page you find what you can rely on when you use kpfs, and how each promise is
held: by a test, by a row of `scripts/bench` with its bound, or by a part of
`scripts/campaign`, which attacks kpfs for hours. Where a promise is *pending*, a
sentence says what is missing. Bounds are for a machine with two cores that has little
else to do. Beside each stands the last figure, with the commit and the machine that it
was measured on. `scripts/bench --promises` measures them on yours.
"""
FIGURES = (
    "\n| row | promised | last | date | commit | machine |\n|---|---|---|---|---|---|\n"
)
MORE = """\
These figures explain how kpfs works and what it costs. They are no promises. Compare
those of one table with one another only.
"""
COLUMNS = "\n| what | figure | date | commit | machine |\n|---|---|---|---|---|\n"


class Bound(NamedTuple):
    """The promise about one row of the bench."""

    group: str
    row: str
    least: bool  # the value is to be at least that, not at most
    limit: float
    unit: str

    @property
    def amount(self) -> str:
        """The limit as a sentence has it."""
        if self.unit == "%":
            return f"{self.limit:g} %"
        return f"{self.limit:g} {UNITS.get(self.unit, self.unit)}".strip()

    def keeps(self, value: float) -> bool:
        """Return True if a value is within the bound."""
        return value >= self.limit if self.least else value <= self.limit

    def __str__(self) -> str:
        return (
            f"at {'least' if self.least else 'most'} {self.limit:g} {self.unit}".strip()
        )


class Promise(NamedTuple):
    """A row of the table."""

    number: str
    title: str
    text: str  # {ROW} stands for the bound of that row
    bounds: tuple[Bound, ...]
    tests: tuple[str, ...]  # FILE::NAME, below tests
    parts: tuple[str, ...]  # parts of the campaign
    pending: str

    @property
    def sentence(self) -> str:
        """The text with its bounds."""
        amounts = {bound.row: bound.amount for bound in self.bounds}
        return re.sub(r"{([^}]+)}", lambda found: amounts[found[1]], self.text)


class Figure(NamedTuple):
    """Something that was measured."""

    name: str
    value: float | str  # a str has a range
    unit: str
    date: str
    commit: str
    machine: str
    what: str = ""  # is measured, where no row of the bench says so
    said: tuple[str, ...] = ()  # PAGE: WORDS, which have the value

    @property
    def shown(self) -> str:
        """Value and unit."""
        value = self.value
        if not isinstance(value, str):
            value = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
        return f"{value} {self.unit}".strip()

    @property
    def cells(self) -> str:
        """The end of a row of a table."""
        return f"{self.shown} | {self.date} | {self.commit} | {self.machine}"


def _words(cell: str) -> list[str]:
    return [] if cell == EMPTY else cell.split()


def _bound(text: str) -> Bound:
    found = BOUND.fullmatch(text)
    assert found, f"{text}: GROUP/ROW<=BOUND"
    group, row, sign, limit, unit = found.groups()
    return Bound(group, row, sign == ">=", float(limit), unit)


def table() -> Iterator[tuple[str, list[Promise]]]:
    """Read the table: sections, with their promises."""
    section: tuple[str, list[Promise]] | None = None
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        number, title, *cells = line.split("\t")
        if cells:
            assert section, line
            text, bounds, tests, parts, pending = cells
            promise = Promise(
                number,
                title,
                text,
                tuple(map(_bound, _words(bounds))),
                tuple(_words(tests)),
                tuple(_words(parts)),
                "" if pending == EMPTY else pending,
            )
            section[1].append(promise)
        else:
            if section:
                yield section
            section = f"{number}. {title}", []
    if section:
        yield section


def promises() -> list[Promise]:
    """Return the promises of all sections."""
    return [promise for _, found in table() for promise in found]


def bounds() -> dict[str, Bound]:
    """Return the bounds of the bench's rows, by name."""
    return {bound.row: bound for promise in promises() for bound in promise.bounds}


def topics() -> Iterator[tuple[str, list[Figure]]]:
    """Read what was measured: what each file is about, and its figures."""
    for path in sorted(RESULTS.glob("*.json")):
        topic = json.loads(path.read_text(encoding="utf-8"))
        yield (
            topic["about"],
            [
                Figure(**{**row, "said": tuple(row.get("said", ()))})
                for row in topic["rows"]
            ],
        )


def figures() -> dict[str, Figure]:
    """Return the last figures, by name."""
    return {figure.name: figure for _, found in topics() for figure in found}


def _wrap(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _ways(promise: Promise) -> str:
    """Return how a promise is held, as a sentence."""
    ways = []
    for path in dict.fromkeys(test.partition("::")[0] for test in promise.tests):
        names = [
            f"`{n}`"
            for p, _, n in (t.partition("::") for t in promise.tests)
            if p == path
        ]
        ways.append(f"`tests/{path}` ({', '.join(names)})")
    rows = [f"`{bound.row}`" for bound in promise.bounds]
    if rows:
        ways.append(f"`scripts/bench` ({', '.join(rows)})")
    if promise.parts:
        ways.append(f"`scripts/campaign {' '.join(promise.parts)}`")
    return ", ".join(ways)


def _row(name: str, figure: Figure | None, bound: Bound | None = None) -> str:
    """Return the row of a promise's table; bound: None for a part of the campaign."""
    cells = figure.cells if figure else "not recorded | | |"
    if bound and figure and not bound.keeps(float(figure.value)):
        cells = f"**missed:** {cells}"
    return f"| `{name}` | {bound or 'no finding'} | {cells} |\n"


def page() -> str:
    """Return the text of docs/promises.md."""
    last = figures()
    parts = [f"{TITLE}\n\n{_wrap(ABOUT)}\n"]
    told: set[str] = set()
    for section, found in table():
        parts.append(f"\n## {section}\n")
        for promise in found:
            parts.append(
                f"\n### {promise.number} {promise.title}\n\n{_wrap(promise.sentence)}\n"
            )
            if ways := _ways(promise):
                parts.append("\n" + _wrap(f"*Held by* {ways}.") + "\n")
            if promise.pending:
                parts.append("\n" + _wrap(f"*Pending:* {promise.pending}") + "\n")
        rows = {
            bound.row: _row(bound.row, last.get(bound.row), bound)
            for promise in found
            for bound in promise.bounds
        }
        names = [part for promise in found for part in promise.parts]
        rows |= {part: _row(part, last.get(part)) for part in names}
        told |= set(rows)
        if rows:
            parts += [FIGURES, *rows.values()]
    parts.append(f"\n## More figures\n\n{_wrap(MORE)}\n")
    for about, measures in topics():
        if more := [figure for figure in measures if figure.name not in told]:
            parts.append(f"\n### {about}\n{COLUMNS}")
            parts += [f"| {figure.what} | {figure.cells} |\n" for figure in more]
    return "".join(parts)


def report(now: Mapping[str, Row]) -> Iterator[str]:
    """Yield the table for people, with what was measured now."""
    last = figures()
    for section, found in table():
        yield section
        for promise in found:
            mark = "  (pending in part)" if promise.pending else ""
            yield f"{promise.number:>5}  {promise.title}{mark}"
            for bound in promise.bounds:
                row = now.get(bound.row)
                value = None if row is None else row.value
                verdict = "" if value is None or bound.keeps(value) else "MISSED"
                measured = "-" if value is None else f"{value:.3g} {bound.unit}"
                before = last[bound.row].shown if bound.row in last else "-"
                yield (
                    f"       {bound.row:32} {bound!s:18} now {measured:11} {verdict:6} "
                    f"last {before}"
                ).rstrip()
            for way in (
                *promise.tests,
                *(f"scripts/campaign {p}" for p in promise.parts),
            ):
                yield f"       {way}"


def _is_idle() -> bool:
    """Return True if nothing else runs; the load average has our own measures."""
    before = _ticks()
    time.sleep(MOMENT)
    spent = [now - then for now, then in zip(_ticks(), before, strict=True)]
    return spent[IDLE_TICKS] >= MOSTLY * sum(spent)


def _ticks() -> list[int]:
    """Return the time of all processors by kinds, in ticks.  Document: proc(5)."""
    with open("/proc/stat", encoding="ascii") as file:
        return [int(word) for word in file.readline().split()[1:]]


def where() -> dict[str, str]:
    """Return date, commit and machine of what is measured now."""
    words = ["git", "-C", str(ROOT), "rev-parse", "--short=8", "HEAD"]
    commit = ""
    with contextlib.suppress(FileNotFoundError):  # there is no git
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        commit = done.stdout.strip()
    load = "idle" if _is_idle() else f"load {os.getloadavg()[1]:.0f}"
    machine = f"{platform.machine()}, {os.cpu_count()} cores, {load}"
    return {
        "date": date.today().isoformat(),
        "commit": commit or "unknown",
        "machine": machine,
    }


def save(rows: Iterable[Row], kernel: str | None = None) -> None:
    """Put what was measured into the place of the bench's figures of before.

    kernel: the Linux kernel that it was measured in.
    """
    topic = json.loads(SAVED.read_text(encoding="utf-8"))
    kept = {row["name"]: row for row in topic["rows"]}
    place = where()
    if kernel:
        place["machine"] += f", kernel {kernel}"
    promised = bounds()
    for row in rows:
        if row.name in promised and row.value is not None and not row.wrong:
            value = float(f"{row.value:.3g}")
            kept[row.name] = {
                "name": row.name,
                "value": value,
                "unit": row.unit,
                **place,
            }
    lines = ",\n".join(
        f"    {json.dumps(row, ensure_ascii=False)}" for row in kept.values()
    )
    text = (
        f'{{\n  "about": {json.dumps(topic["about"])},\n  "rows": [\n{lines}\n  ]\n}}\n'
    )
    SAVED.write_text(text, encoding="utf-8")
    PAGE_FILE.write_text(page(), encoding="utf-8")
