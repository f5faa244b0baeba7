# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules that are made at random, a seed for each, and loaded into a guest.

A process of its own does some of them in turn, and says in a file which one it is at:
its parent knows what it has died of, and goes on behind that.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.campaign.attack import Attack
from tests.campaign.child import in_child, tail
from tests.campaign.hunt import Hunt
from tests.modbox import Box

LIMIT = 0.4  # s of CPU time that the guest may take for one request
SLEEP_MAX = 10  # s that a module may sleep for, which Linux would let it for ever


class Seeds(Attack):
    """Loads such modules into one guest, and into a new one when that is dead."""

    def __init__(self, path: Path, at: int) -> None:
        super().__init__(path, at)
        self.slept = False
        signal.signal(signal.SIGALRM, lambda *_: self.give_up())
        self.box = self.boot(random.Random(0))

    def boot(self, _rng: random.Random) -> Box:
        """Return a new guest."""
        return self.impatient(Box(1))

    def impatient(self, box: Box) -> Box:
        """Have the watchdog of a guest act soon; return the guest."""
        box.kernel.guest.cpus.watchdog.limit = LIMIT
        box.kernel.guest.cpus.watchdog.rewind_at = 0.0
        return box

    def give_up(self) -> None:
        """Wait no longer for a task that sleeps: its guest is as good as gone."""
        self.slept = True
        self.box.kernel.syscalls.close()
        self.box.kernel.background.retire()

    def load(self, rng: random.Random) -> str:
        """Make a module at random and load it; return how it ended.  WrongError."""
        raise NotImplementedError

    def one(self, rng: random.Random) -> str:
        signal.alarm(SLEEP_MAX)
        try:
            how = self.load(rng)
        finally:
            signal.alarm(0)
        if self.slept:
            self.slept = False
            self.box.close()
            self.box = self.boot(rng)
            return "asleep"
        return how

    def said(self) -> str:
        return f"{self.last}\n{tail(self.box)}"

    def used(self) -> int:
        """Count nothing, as guests come and go here."""
        return 0


def hunt_with(
    make: Callable[[Path, int], Attack], hunt: Hunt, per_child: int, patience: float
) -> None:
    """Work through random seeds until all is done, per_child of them in each process.

    patience: s for one process.
    """
    path = hunt.scratch / "module.ko"
    with tempfile.TemporaryFile(dir=hunt.scratch) as file:
        at = file.fileno()
        while hunt.more():
            seeds = [hunt.rng.getrandbits(32) for _ in range(hunt.left(per_child))]
            while seeds:
                answer = in_child(lambda s=seeds: make(path, at).work(s), patience)  # type: ignore[misc]
                if not answer.wrong:
                    hunt.did(len(seeds))
                    hunt.tally.update(answer.value)
                    break
                done = int.from_bytes(os.pread(at, 4, 0), "little") + 1
                hunt.finding(f"{answer.wrong}\nseed {seeds[done - 1]}", path)
                hunt.did(done)
                seeds = seeds[done:] if hunt.more() else []
