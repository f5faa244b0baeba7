# SPDX-License-Identifier: GPL-2.0-or-later
"""The figures of this checkout beside those of another commit, measured in turn.

A limit says little, as a machine is now fast, now half as fast.  So a worktree of the
other commit is measured in turn with this one, each by its own bench.  A figure differs
if each run of one is beyond all runs of the other: of seven each, chance brings that
once in 1,700 rows.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench import promises
from bench.command import ROOT
from bench.row import Row

HEADING = f"{'':28} {'before':>10} {'now':>10} {'':3} {'ratio':>6}"
FEWEST = 4  # runs of each, below which chance brings a difference too often


class AgainstError(Exception):
    """The other commit cannot be measured."""


class Pair(NamedTuple):
    """The values of a row in all runs of both."""

    row: Row
    before: list[float]
    now: list[float]
    more: bool = False  # is better

    @property
    def ratio(self) -> float | None:
        """How many times as much it is now; None if it was nothing."""
        before = statistics.median(self.before)
        return statistics.median(self.now) / before if before else None

    @property
    def verdict(self) -> str:
        """ "better" or "worse", or "" if it may be noise."""
        less = max(self.now) < min(self.before)
        if not less and min(self.now) <= max(self.before):
            return ""
        return "better" if less != self.more else "worse"

    def as_dict(self) -> dict[str, object]:
        names = {"name": self.row.name, "unit": self.row.unit}
        values = {"before": self.before, "now": self.now}
        return {**names, **values, "ratio": self.ratio, "verdict": self.verdict}

    def show(self) -> str:
        """A line of the table."""
        before, now = statistics.median(self.before), statistics.median(self.now)
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        line = f"{self.row.name:28} {before:>10.3f} {now:>10.3f} {self.row.unit:3}"
        return f"{line} {ratio:>6}  {self.verdict}".rstrip()


def _git(*words: str | Path, root: Path) -> str:
    if not shutil.which("git"):
        raise AgainstError("needs git (apt install git)")
    done = subprocess.run(
        ["git", "-C", root, *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise AgainstError(done.stderr.strip() or f"git {words[0]} failed")
    return done.stdout.strip()


@contextlib.contextmanager
def worktree(commit: str, root: Path = ROOT) -> Iterator[Path]:
    """A checkout of a commit, with the packages of this one if it needs the same."""
    name = f"{commit}^{{commit}}"
    try:
        digest = _git("rev-parse", "--verify", "--end-of-options", name, root=root)
    except AgainstError as error:
        raise AgainstError(f"no such commit: {commit}") from error
    with tempfile.TemporaryDirectory(prefix="kpfs-bench-") as scratch:
        there = Path(scratch) / "tree"
        _git("worktree", "add", "--quiet", "--detach", there, digest, root=root)
        try:
            packages = Path("requirements", "run.txt")
            with contextlib.suppress(FileNotFoundError):
                if (root / packages).read_bytes() == (there / packages).read_bytes():
                    (there / ".venv").symlink_to(root / ".venv")
            yield there
        finally:
            _git("worktree", "remove", "--force", there, root=root)


def measure(root: Path, options: Sequence[str]) -> dict[str, Row]:
    """The rows of one run of a checkout's bench, by name, without those that failed."""
    words = [str(root / "scripts" / "bench"), "--json", "--repeats", "1", *options]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1):
        raise AgainstError(f"{root}: scripts/bench ended with {done.returncode}")
    fields = Row._fields  # another commit may know others
    found = json.loads(done.stdout)["rows"]
    rows = [Row(**{key: row[key] for key in fields if key in row}) for row in found]
    return {row.name: row for row in rows if row.value is not None and not row.wrong}


def pairs(now: list[dict[str, Row]], before: list[dict[str, Row]]) -> Iterator[Pair]:
    """The rows that all runs of both have."""
    bounds = promises.bounds()
    for name, row in now[0].items():
        if all(name in run for run in (*now, *before)):
            then, today = (
                [run[name].value or 0.0 for run in runs] for runs in (before, now)
            )
            more = name in bounds and bounds[name].least
            yield Pair(row, then, today, more)


def compare(
    commit: str, options: Sequence[str], repeats: int, root: Path = ROOT
) -> list[Pair]:
    """Measure a commit and this checkout in turn, so often each.

    options: of scripts/bench.  AgainstError.
    """
    now: list[dict[str, Row]] = []
    before: list[dict[str, Row]] = []
    with worktree(commit, root) as there:
        measure(there, options)  # its first use compiles it
        for number in range(max(repeats, FEWEST)):
            print(f"bench: run {number + 1}", file=sys.stderr)
            turn = [(there, before), (root, now)]
            for tree, runs in reversed(turn) if number % 2 else turn:
                runs.append(measure(tree, options))
    return list(pairs(now, before))
