# SPDX-License-Identifier: GPL-2.0-or-later
"""Attacks at random, a seed for each, in processes that may die of them."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path

from tests.campaign.child import Grave, resident, where
from tests.harness import WrongError

GROWTH = 64 << 20  # bytes that a process may grow by, whatever a stranger's data say


class Attack:
    """Makes attacks one after the other, as a process of hunt_with()."""

    def __init__(self, path: Path, at: int) -> None:
        """path: where to write what is attacked with.

        at: a file that says which attack is in work.
        """
        self.path = path
        self.at = at
        self.tally: Counter[str] = Counter()
        self.grave = Grave()
        self.last = ""  # what is said of the seed in work
        self.first = self.most = 0  # results of used(), from the first seed on

    def one(self, rng: random.Random) -> str:
        """Make one attack; return how it has ended.  Raises WrongError."""
        raise NotImplementedError

    def said(self) -> str:
        """Return what a finding is to say about the seed in work."""
        return self.last

    def used(self) -> int:
        """Return the bytes of memory that kpfs uses, without what a guest has."""
        return resident()

    def close(self) -> None:
        """End what one() has begun, behind the last one."""

    def work(self, seeds: list[int]) -> dict[str, int]:
        """Work through the seeds; return how many ended in which way."""
        for number, seed in enumerate(seeds):
            os.pwrite(self.at, number.to_bytes(4, "little"), 0)
            try:
                self.tally[self.one(random.Random(seed))] += 1
                if self.grave.lines:
                    raise WrongError("it is in kpfs's own log")
                used = self.used()
                self.first = self.first or used
                self.most = max(self.most, used)
                if used > self.first + GROWTH:
                    raise WrongError(f"{used - self.first >> 20} MB more are in use")
            except BaseException as error:
                what = f"{type(error).__name__}: {error}\n{self.said()}\n{where()}"
                raise WrongError(what) from error
        self.close()
        return self.tally
