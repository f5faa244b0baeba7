# SPDX-License-Identifier: GPL-2.0-or-later
"""The task of a part of the campaign: how much, until when, where findings go."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.campaign import processes
from tests.harness import WrongError

SAVE_EVERY = 0.5  # s between two notes of how far we are
FINDINGS_MAX = 20  # findings after which a part ends: they are all one thing


class Part(NamedTuple):
    """A row of the table of parts."""

    what: str  # is counted
    number: int  # number of them in a whole run
    share: float  # part of a short run's time
    run: Callable[[Hunt], None]
    kernels: bool = False  # it can be run over a real kernel


class Progress(NamedTuple):
    """The progress of a part, as its process notes it down."""

    done: int = 0
    note: str = ""
    findings: tuple[str, ...] = ()


class Hunt:
    """One part at work; its process notes down how far it is, in case it dies.

    Findings are kept as folders; each says in ``what`` what was found and how to see it
    again.
    """

    def __init__(
        self,
        name: str,
        number: int,
        seconds: float,
        seed: int,
        folder: Path,
        kernel: str = "",
    ) -> None:
        """seconds: 0 means until number is reached; folder: exists and is empty.

        kernel: the real one that the guest is to be; "": our own.
        """
        self.name = name
        self.number = number
        self.seed = seed
        self.kernel = kernel
        self.guest = ("--kernel", kernel) if kernel else ()  # options of kpfs
        self.rng = random.Random(seed)
        self.scratch = folder / "scratch"
        self.kept = folder / "findings"
        self.scratch.mkdir()
        self.kept.mkdir()
        self.others = set(processes.below(os.getpid()))  # those of tests beside us
        self.done = 0
        self.tally: Counter[str] = Counter()
        self.begin = time.monotonic()
        self.short = seconds > 0  # there is a limit to the time
        self.end = self.begin + seconds if seconds else float("inf")
        self._note = ""
        self._findings: list[str] = []
        self._progress = folder / "progress"
        self._saved = 0.0

    # ---- how far
    def more(self) -> bool:
        """Return True if there is something left to do, and time for it."""
        enough = len(self._findings) >= FINDINGS_MAX
        return self.done < self.number and time.monotonic() < self.end and not enough

    def left(self, count: int) -> int:
        """At most count, as many as are left to do."""
        return min(count, self.number - self.done)

    def did(self, count: int = 1, *words: str) -> None:
        """Note that count more are done, and count each word."""
        self.done += count
        self.tally.update(words)
        if time.monotonic() >= self._saved + SAVE_EVERY:
            self.save()

    def save(self) -> None:
        """Note down how far we are."""
        counts = sorted(self.tally.items())
        note = ", ".join(f"{n} {word}" for word, n in counts) or self._note
        text = json.dumps((self.done, note, self._findings))
        new = self._progress.with_suffix(".new")
        new.write_text(text)
        new.replace(self._progress)
        self._saved = time.monotonic()

    def resume(self, progress: Progress) -> None:
        """Go on where another process has left off."""
        self.done, self._note, self._findings = *progress[:2], [*progress.findings]

    def each(
        self, attempt: Callable[[], str], said: Callable[[], object], *keep: Path
    ) -> None:
        """Make attempts until there are enough; each returns how it has ended.

        It returns "" if it has counted by itself what it did. One that raises
        WrongError, or leaves a process behind, is a finding: what said() returns then,
        the error, and copies of the files.
        """
        while self.more():
            try:
                how = attempt()
                if left := processes.linger(processes.SOON, self.others):
                    raise WrongError(f"left behind: {processes.told(left)}")
            except WrongError as error:
                how = "wrong"
                self.finding(f"{said()}: {error}", *keep)
                processes.end_all(self.scratch)
            if how:
                self.did(1, how)

    def each_of(self, attempts: Mapping[str, Callable[[], str]]) -> None:
        """Make these attempts in any order, each once at most."""
        rows = list(attempts.items())
        self.rng.shuffle(rows)
        self.number = min(self.number, len(rows))
        self.each(lambda: rows[self.done][1](), lambda: rows[self.done][0])

    # ---- findings
    def finding(self, what: str, *keep: Path, **texts: str) -> None:
        """Something is wrong: keep copies of files, and texts by their file's name."""
        folder = self.kept / f"{self.name}-{len(self._findings) + 1}"
        folder.mkdir()
        guest = "".join(f"{word} " for word in self.guest)
        again = f"scripts/campaign --seed {self.seed} {guest}{self.name}"
        said = "".join(f"\n{name}:\n{text}\n" for name, text in texts.items())
        text = f"{what}\n\n{again}\n{said}"
        # names of files may be of any bytes
        (folder / "what").write_text(text, errors="surrogateescape")
        for path in keep:
            if path.is_file():
                shutil.copy(path, folder)
        first = what.splitlines()[0] if what else "?"
        first = first.encode("utf-8", "backslashreplace").decode()
        self._findings.append(f"{folder.name}: {first:.300}")
        print(f"  FINDING {self._findings[-1]}", flush=True)
        self.save()


def progress_of(folder: Path) -> Progress:
    """Return the last progress that the part working in folder has noted down."""
    try:
        done, note, findings = json.loads((folder / "progress").read_text())
    except FileNotFoundError:
        return Progress()
    return Progress(done, note, tuple(findings))
