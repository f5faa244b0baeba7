# SPDX-License-Identifier: GPL-2.0-or-later
"""Random programs that write code and run it, inside kernels of each architecture.

tests/programs/written.c knows what each function must return.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import harness
from tests.campaign.hunt import Hunt, Part
from tests.programs import static_program

AT_ONCE = 2000  # actions of one command: a second, and several times that on arm64


class Row(NamedTuple):
    """A kernel, and how programs for it are compiled."""

    kernel: str
    prefix: str = ""  # the compiler's, without the system


ROWS = (
    Row(harness.KERNEL),
    Row(harness.TWO_CPUS),
    Row(harness.ARM64, "aarch64-"),
    Row(harness.ARM64_TWO_CPUS, "aarch64-"),
    Row(harness.RISCV64, "riscv64-"),
    Row(harness.RISCV64_TWO_CPUS, "riscv64-"),
)


def built(row: Row, folder: Path) -> Path | None:
    """Return the program for a kernel; None if that or a compiler is not there."""
    below = folder / f"for-{row.prefix}"
    below.mkdir(exist_ok=True)
    prefix = row.prefix and f"{row.prefix}linux-gnu-"
    try:
        if harness.missing_kernels(row.kernel):
            return None
        return static_program("written", below, prefix)
    except pytest.skip.Exception:
        return None


def run(hunt: Hunt) -> None:
    os.environ["XDG_DATA_HOME"] = str(harness.kernels())
    rows, kpfs = list(ROWS), harness.Kpfs(hunt.scratch)
    while hunt.more() and rows:
        row = hunt.rng.choice(rows)
        if (program := built(row, hunt.scratch)) is None:
            rows.remove(row)
            continue
        count, seed = hunt.left(AT_ONCE), hunt.rng.randrange(1 << 30)
        words = "--kernel", row.kernel, "--inside", "--", program, str(seed), str(count)
        done = kpfs("run", *words, timeout=5 * harness.TIMEOUT)
        if done.returncode:
            what = f"{program.name} {seed} {count} in {row.kernel}"
            hunt.finding(what, said=done.stdout + done.stderr)
        hunt.did(count)


PART = Part("actions", 200_000, 1.0, run)
