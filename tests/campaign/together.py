# SPDX-License-Identifier: GPL-2.0-or-later
"""Processes that use the same files at once: none waits for another for ever.

A crowd of 2 to 8 processes (tests.campaign.crowd) writes, reads, waits, forks and maps,
over the guest kernel with 1 to 4 CPUs, and over Linux kernels.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench.command import KPFS
from tests import harness
from tests.campaign import crowd, processes
from tests.campaign.hunt import Hunt, Part
from tests.campaign.product import kernels
from tests.harness import GRAVE, WrongError

PATIENCE = 150.0  # s for one crowd, on a machine that others use too
ACTIONS = 60  # actions of a member; over a Linux kernel a third of them
FEW = 4  # kinds of actions that meet, in half of the crowds
PROGRAM = str(Path(crowd.__file__))


def program(seed: int, count: int, actions: int, *names: str) -> list[str]:
    """Return the words that run a crowd."""
    python = os.path.realpath(sys.executable)
    return [python, "-I", "-S", PROGRAM, str(seed), str(count), str(actions), *names]


def drawn(hunt: Hunt, kernel: str) -> list[str]:
    """Draw a crowd; return the words that run it."""
    rng = hunt.rng
    names = rng.sample([*crowd.ACTIONS], FEW) if rng.random() < 0.5 else []
    actions = ACTIONS // 3 if kernel else ACTIONS
    return program(rng.randrange(1 << 30), rng.randint(2, 8), actions, *names)


def one(hunt: Hunt, kernel: str, crowded: list[str]) -> None:
    """Run a crowd to its end.  Raises WrongError."""
    log, rng = hunt.scratch / "log", hunt.rng
    log.write_text("")
    how = ["--kernel", kernel] if kernel else ["--cpus", str(rng.randint(1, 4))]
    how += ["--mirror=always"] if rng.random() < 0.3 else []
    words = [str(KPFS), "run", "--log", str(log), *how, "--", *crowded]
    said = " ".join(words)
    environment = {**os.environ}
    if not hunt.kernel:
        environment["XDG_DATA_HOME"] = str(harness.kernels())
    child = subprocess.Popen(words, stdout=-1, stderr=-1, text=True, env=environment)
    try:
        out, err = child.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        stands = [where(pid) for pid in (child.pid, *processes.below(child.pid))]
        processes.end_all(hunt.scratch)
        raise WrongError("\n".join((f"hangs: {said}", *stands))) from None
    if child.returncode or err:
        raise WrongError(
            f"{said}\nstatus {child.returncode}: {out[-1500:]}{err[-1500:]}"
        )
    if grave := [line for line in log.read_text().splitlines() if GRAVE.search(line)]:
        raise WrongError("\n".join((said, *grave[:20])))


def where(pid: int) -> str:
    """Name a process and the places in the host's kernel where its threads wait."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            found.append(
                f"{(task / 'wchan').read_text()} {(task / 'syscall').read_text()}"
            )
        except OSError:
            continue
    return f"{pid} {processes.name(pid)}: " + "; ".join(map(str.strip, found))


def run(hunt: Hunt) -> None:
    over = [hunt.kernel] if hunt.kernel else kernels()

    def any_of_them() -> str:
        kernel = over[hunt.done % len(over)]
        one(hunt, kernel, drawn(hunt, kernel))
        return kernel or "own"

    hunt.each(any_of_them, lambda: "a crowd", hunt.scratch / "log")


PART = Part("crowds", 300, 1, run, kernels=True)
