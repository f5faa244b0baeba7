# SPDX-License-Identifier: GPL-2.0-or-later
"""Searches of modules whose errors are known, and of the same ones mended.

Each error of ``tests/checked/races.c`` is to be found within 20 runs, and nothing where
it is mended. Then each finding is seen again in new processes: by itself, while others
need the processors, and under gdb, which stops it and goes back. A replay that is
another run is a finding here.

``python -m tests.campaign.searches [KERNEL...] [ERROR...]`` prints a table: after how
many runs each error is found in each kernel, and what is said of the mended module.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kpfs.linux.store import store
from tests import checked, harness
from tests.campaign.hunt import Hunt, Part
from tests.harness import WrongError
from tests.programs import static_program
from tests.replayed import under_gdb

RUNS = "20"
KINDS = "race,memory,schedule,lock,ibt"
OF_CALLS = "fault"  # the kind of errors that only a failed call shows
PATIENCE = 600  # s for one search, on a machine that others use too
BUSY = [sys.executable, "-c", "while True: pass"]
# error -> what the titles of its findings have
EXPECTED = {
    "lost": ("data race: lost+", "wrong result"),
    "torn": ("data race: torn+", "wrong result"),
    "check": ("data race: check+", "memory: leak", "wrong result"),
    "publish": ("data race: publish+", "wrong result"),
    "elsewhere": ("data race: elsewhere+", "wrong result"),
    "ticks": ("data race: tick", "wrong result"),
    "timer": ("lock: taken in a soft interrupt at take_in_timer+",),
    "two": ("lock: 2 locks are taken in a circle", "CMD still runs"),
    "three": ("lock: 3 locks are taken in a circle", "CMD still runs"),
    "sleep": ("lock: mutex_lock may sleep at sleeps+",),
    "hoist": ("data race: hoist+",),
    "late": ("memory: read of 8 bytes after free at session_tick+",),
    "fails": ("the kernel complains: BUG: kernel NULL pointer",),
    "spins": ("lock: 2 locks are taken in a circle", "CMD still runs after 30 s"),
    "lands": ("ibt: a branch at lands+",),
}
WAYS = "alone", "busy", "gdb"  # in which findings are seen again
KERNELS = ["5.10+cpus=2", "6.1+cpus=2", "6.12+cpus=2", "7.3+cpus=2"]
# modules whose errors one run shows, as they are loaded
CHECKED: dict[str, Collection[str]] = {"memory": checked.MEMORY, "locks": checked.LOCKS}
NO_IBT = ("5.10", "6.1")  # kernels that are built without it
# what is expected of arm64's: no branch is looked at, and the kernel complains in other
# words
ON_ARM64 = {
    "fails": ("the kernel complains: Unable to handle kernel NULL pointer",),
    "lands": (),
}
ARM64 = "aarch64-linux-gnu-"  # begins the names of its compiler's programs


class Searches:
    """Searches in a folder that has program, modules and seeds."""

    def __init__(self, folder: Path, kernel: str) -> None:
        self.folder, self.kernel = folder, kernel
        (folder / "data/kpfs").mkdir(parents=True)
        made = Path(store.folder(kernel))
        tests = harness.kernels() / "kpfs" / "kernels"
        kernels = made.parent.resolve() if made.is_dir() else tests
        (folder / "data/kpfs/kernels").symlink_to(kernels)
        os.environ["XDG_DATA_HOME"] = str(folder / "data")
        self._is_arm64 = "arm64" in kernel
        static_program("races", folder, ARM64 if self._is_arm64 else "")

    @property
    def expected(self) -> dict[str, tuple[str, ...]]:
        """Return what the titles of findings have, by errors."""
        if self._is_arm64:
            return EXPECTED | ON_ARM64
        series = re.split(r"[-+]", self.kernel)[0]
        without = {"lands": ()} if series in NO_IBT else {}
        return EXPECTED | without

    def _command(self, module: Path, error: str) -> list[str]:
        """Return the command of a search, and where its programs are."""
        command = f"./races {error}; status=$?; rmmod {module.stem}; exit $status"
        if not self._is_arm64:
            return ["--", "sh", "-c", f"insmod -f {module}; {command}"]
        busybox = command.replace("rmmod", "busybox rmmod")
        script = f"PATH=/bin; busybox insmod {module.name}; {busybox}"
        root = str(harness.arm64_root())
        return ["--root", root, "--", "/bin/sh", "-c", script]

    def search(self, error: str, *, mended: bool) -> list[dict[str, Any]]:
        """Return the findings of a search."""
        module = checked.build(self.folder, self.kernel, "races", mended=mended)
        kinds = OF_CALLS if error == "fails" else KINDS
        words = "search", "--kernel", self.kernel, "--runs", RUNS, "--kinds", kinds
        done = self._kpfs(*words, "--json", *self._command(module, error))
        if done.returncode not in (0, 1):
            raise WrongError(f"{error}: {done.stderr}")
        found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
        return found

    def check(self, name: str, *, mended: bool) -> set[str]:
        """Return the functions of a module that one run with checks tells of."""
        module = checked.build(self.folder, self.kernel, name, mended=mended)
        command = f"insmod -f {module} && rmmod {module.stem}"
        words = "run", "--kernel", self.kernel, "--inside", "--check", "memory,lock"
        done = self._kpfs(*words, "--", "sh", "-c", command)
        place = rf"^kpfs: (?:memory|lock): .*? at (\w+)\+\S+ \[{module.stem}\]"
        return {*re.findall(place, done.stderr, re.M)}

    def replay(self, finding: dict[str, Any], *, gdb: bool = False) -> None:
        """See a finding again.  WrongError: it is another run."""
        words = shlex.split(finding["replay"])
        if gdb:
            done = under_gdb(words, self.folder)
            errors, told = done.errors, done.said
            if "hit Breakpoint" not in told or "plan: " not in told:
                raise WrongError(f"{finding['title']}: gdb has not stopped it: {told}")
        else:
            errors = self._kpfs(*words[1:]).stderr
        if f"kpfs: {finding['title']}" not in errors or "another run" in errors:
            raise WrongError(f"{finding['title']}: {errors}")

    def _kpfs(self, *words: str) -> subprocess.CompletedProcess[str]:
        kpfs = harness.Kpfs(self.folder)
        return kpfs(*words, cwd=self.folder, timeout=PATIENCE)


@contextmanager
def busy(number: int) -> Iterator[None]:
    """Have others need the processors."""
    with ExitStack() as stack:
        for _ in range(number):
            process = stack.enter_context(subprocess.Popen(BUSY))
            stack.callback(process.kill)
        yield


def run(hunt: Hunt) -> None:
    searches = Searches(hunt.scratch, hunt.kernel or harness.WITH_PARAMETERS)
    known: list[dict[str, Any]] = []
    for error, expected in searches.expected.items():
        if not expected:
            continue
        titles = []
        for each in searches.search(error, mended=False):
            titles.append(each["title"])
            known.append(each)
        for words in expected:
            if not any(words in title for title in titles):
                hunt.finding(f"{error}: no {words!r} in {RUNS} runs, but {titles}")
        for each in searches.search(error, mended=True):
            hunt.finding(f"{error}, mended: {each['title']}")
        hunt.tally.update(["searches"] * 2)
        if not hunt.more():
            return
    while hunt.more():
        finding, way = known[hunt.done // len(WAYS) % len(known)], hunt.done % len(WAYS)
        with busy((os.cpu_count() or 1) * (WAYS[way] == "busy")):
            try:
                searches.replay(finding, gdb=WAYS[way] == "gdb")
            except WrongError as error:
                hunt.finding(f"{WAYS[way]}: {error}")
        hunt.did(1, f"{WAYS[way]}, {finding['kind']}")


def _cell(searches: Searches, error: str) -> str:
    """Return after how many runs an error was found, and what is wrong."""
    if not (expected := searches.expected[error]):
        return "-"
    found = searches.search(error, mended=False)
    runs = [
        [each["after"] for each in found if words in each["title"]]
        for words in expected
    ]
    missed = [words for words, after in zip(expected, runs, strict=True) if not after]
    mended = [each["title"] for each in searches.search(error, mended=True)]
    told = [*(f"NOT FOUND: {words}" for words in missed)]
    told += [f"MENDED: {title}" for title in mended]
    return "; ".join(told) or str(max(map(min, runs)))


def _checked_cell(searches: Searches, name: str) -> str:
    known = CHECKED[name]
    found = searches.check(name, mended=False)
    mended = sorted(searches.check(name, mended=True))
    told = [f"NOT FOUND: {function}" for function in sorted({*known} - found)]
    told += [f"MENDED: {function}" for function in mended]
    return "; ".join(told) or f"{len(known)} in 1"


def table(kernels: list[str], errors: list[str]) -> Iterator[str]:
    """Yield the lines of a table: for each error the runs until it is found."""
    with tempfile.TemporaryDirectory() as scratch:
        all_of = []
        for number, kernel in enumerate(kernels):
            folder = Path(scratch) / str(number)
            folder.mkdir()
            all_of.append(Searches(folder, kernel))
        yield f"{'':10} " + " ".join(f"{kernel:14}" for kernel in kernels)
        for error in errors:
            cell = _checked_cell if error in CHECKED else _cell
            cells = [cell(searches, error) for searches in all_of]
            yield f"{error:10} " + " ".join(f"{each:14}" for each in cells)


PART = Part("replays", 200, 1.5, run, kernels=True)

if __name__ == "__main__":
    names = [*EXPECTED, *CHECKED]
    only = [word for word in sys.argv[1:] if word in names]
    asked = [word for word in sys.argv[1:] if word not in names]
    for row in table(asked or KERNELS, only or names):
        print(row, flush=True)
