# SPDX-License-Identifier: GPL-2.0-or-later
"""Random programs of tasks that share descriptors: the guest has what their host has.

tests/programs/descriptors.py runs them.  A program is run twice: with calls that are
always made in the guest, and with calls that are left out and caught up with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests import harness
from tests.campaign.hunt import Hunt, Part
from tests.harness import ROOT, WrongError
from tests.modbox import build
from tests.programs import program

AT_ONCE = 40  # programs of one command, which has a minute
MODES = "always", "watched"
DRIVER = ROOT / "tests" / "programs" / "descriptors.py"
SCRIPT = """
insmod {module} || exit 2
{python} {driver} {program} {seeds}
status=$?
dmesg | grep -A 20 BUG: && exit 3
exit $status
"""


def command(folder: Path, seeds: Iterable[int]) -> str:
    """Return the script that runs the seeds' programs, built in a folder."""
    return SCRIPT.format(
        module=build("tables"),
        python="python3",
        driver=DRIVER,
        program=program("descriptors", folder),
        seeds=" ".join(map(str, seeds)),
    )


def run(hunt: Hunt) -> None:
    first = hunt.rng.randrange(1 << 30)
    while hunt.more():
        count = hunt.left(AT_ONCE)
        script = command(hunt.scratch, range(first, first + count))
        for mode in MODES:
            kpfs = harness.Kpfs(hunt.scratch)
            done = kpfs("run", f"--mirror={mode}", "--", "sh", "-c", script)
            if done.returncode or kpfs.grave_lines():
                said = "\n".join((done.stdout, done.stderr, *kpfs.grave_lines()))
                hunt.finding(f"differs with --mirror={mode}", said=said)
            looks = re.search(r"(\d+) looks", done.stdout)
            if looks is None:
                raise WrongError(f"{done.stdout}\n{done.stderr}")
            hunt.tally["looks"] += int(looks[1])
        first += count
        hunt.did(count)


PART = Part("programs", 10_000, 1.0, run)
