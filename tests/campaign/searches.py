# SPDX-License-Identifier: GPL-2.0-or-later
"""Searches of modules whose errors are known, and of the same ones mended.

Each error of ``tests/checked/races.c`` is to be found within 20 runs, and nothing where
it is mended. Then each finding is seen again in new processes: by itself, while others
need the processors, and under gdb, which stops it and goes back. A replay that is
another run is a finding here.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

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
NO_IBT = "5.10", "6.1"  # kernels that are built without it
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
        kernels = harness.kernels() / "kpfs" / "kernels"
        (folder / "data/kpfs/kernels").symlink_to(kernels)
        os.environ["XDG_DATA_HOME"] = str(folder / "data")
        self._is_arm64 = "arm64" in kernel
        static_program("races", folder, ARM64 if self._is_arm64 else "")

    @property
    def expected(self) -> dict[str, tuple[str, ...]]:
        """Return what the titles of findings have, by errors."""
        if self._is_arm64:
            return EXPECTED | ON_ARM64
        without = {"lands": ()} if self.kernel.startswith(NO_IBT) else {}
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

    def search(self, error: str, *, mended: bool) -> list[dict[str, str]]:
        """Return the findings of a search."""
        module = checked.build(self.folder, self.kernel, "races", mended=mended)
        kinds = OF_CALLS if error == "fails" else KINDS
        words = "search", "--kernel", self.kernel, "--runs", RUNS, "--kinds", kinds
        done = self._kpfs(*words, "--json", *self._command(module, error))
        if done.returncode not in (0, 1):
            raise WrongError(f"{error}: {done.stderr}")
        found: list[dict[str, str]] = json.loads(done.stdout)["findings"]
        return found

    def replay(self, finding: dict[str, str], *, gdb: bool = False) -> None:
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
    known: list[dict[str, str]] = []
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


PART = Part("replays", 200, 1.5, run, kernels=True)
