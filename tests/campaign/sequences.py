# SPDX-License-Identifier: GPL-2.0-or-later
"""Random sequences of what is done to probes: the guest kernel does what 6.1 does.

Linux 6.1 runs them inside, if its headers are there to build the module.  In any case
what it once printed of some of them, which is kept in tests/data, is compared.

    python -m tests.campaign.sequences SEED STEPS      keep what it prints now
"""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
from pathlib import Path

import pytest

from tests import harness, kernel_modules, modbox
from tests.campaign.hunt import Hunt, Part
from tests.harness import WrongError
from tests.programs.sequences import GROUPS, LATE, comparable, differences, script

MODULE = "sequence"
STEPS = 70
RECORDED = harness.ROOT / "tests" / "data" / "sequences"


def run_script(
    kpfs: harness.Kpfs, seed: int, steps: int, module: Path, *options: str
) -> str:
    """Run sequences in a kernel; return what they print, as it is everywhere."""
    at = module.parent / f"{MODULE}{seed}.sh"
    at.write_text(f"KO={module}\n{script(seed, steps)}")
    done = kpfs("run", *options, "--", "bash", str(at), timeout=600)
    if done.returncode:
        raise WrongError(f"seed {seed}: {done.returncode} {done.stdout} {done.stderr}")
    return comparable(done.stdout)


def in_guest(kpfs: harness.Kpfs, seed: int, steps: int) -> str:
    built = modbox.build(MODULE)
    module = kpfs.scratch / built.name
    module.write_bytes(built.read_bytes())
    return run_script(kpfs, seed, steps, module, "--quiet-guest")


def recorded() -> dict[tuple[int, int], str]:
    """Return what Linux printed, by seed and number of steps."""
    texts = {}
    for path in sorted(RECORDED.glob("*.gz")):
        seed, steps = map(int, path.name.split(".")[0].split("-"))
        texts[seed, steps] = gzip.decompress(path.read_bytes()).decode()
    return texts


class Linux:
    """Linux 6.1, inside which sequences run."""

    def __init__(self, kpfs: harness.Kpfs) -> None:
        """Skip the test if the headers of the kernel are not there."""
        os.environ["XDG_DATA_HOME"] = str(harness.kernels())
        source = (modbox.SOURCES / f"{MODULE}.c").read_text()
        folder = kernel_modules.build({MODULE: source})
        self.kpfs, self.module = kpfs, folder / f"{MODULE}.ko"

    def said(self, seed: int, steps: int) -> str:
        options = "--quiet-guest", "--kernel", harness.KERNEL, "--inside"
        return run_script(self.kpfs, seed, steps, self.module, *options)


def compare(hunt: Hunt, seed: int, right: str, found: str) -> None:
    if texts := differences(right, found):
        hunt.finding(f"sequences of seed {seed}", differences="\n".join(texts))


def run(hunt: Hunt) -> None:
    kpfs = harness.Kpfs(hunt.scratch)
    for (seed, steps), right in recorded().items():
        compare(hunt, seed, right, in_guest(kpfs, seed, steps))
        hunt.did(GROUPS)
    if not hunt.more():
        return
    try:
        linux = Linux(kpfs)
    except pytest.skip.Exception as error:
        hunt.did(0, str(error))
        return
    while hunt.more():
        seed = hunt.rng.randrange(1 << 30)
        right = linux.said(seed, STEPS)
        compare(hunt, seed, right, in_guest(kpfs, seed, STEPS))
        hunt.did(GROUPS, *(["late"] * len(LATE.findall(right))))


PART = Part("sequences", 100, 1.0, run)


def main(seed: int, steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        said = Linux(harness.Kpfs(Path(folder))).said(seed, steps)
    packed = gzip.compress(said.encode(), mtime=0)
    (RECORDED / f"{seed}-{steps}.gz").write_bytes(packed)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
