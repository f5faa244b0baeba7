# SPDX-License-Identifier: GPL-2.0-or-later
"""Random programs of instructions that a processor and its kernel decide together.

They end inside a Linux kernel as on this host, whose processor must be an x86-64 one.
"""

from __future__ import annotations

from tests import harness
from tests.campaign.hunt import Hunt, Part
from tests.programs.instructions import WIDTHS, build, differences

AT_ONCE = 500  # programs of one command


def run(hunt: Hunt) -> None:
    first = hunt.rng.randrange(1 << 30)
    programs = {}
    for width in WIDTHS:
        (folder := hunt.scratch / str(width)).mkdir()
        programs[width] = build(width, folder)
    kernel = hunt.kernel or harness.KERNEL
    while hunt.more():
        count = hunt.left(AT_ONCE)
        for width, built in programs.items():
            words = built, str(first), str(count)
            right = harness.run("setarch", "-R", *words, timeout=harness.TIMEOUT)
            kpfs = harness.Kpfs(hunt.scratch)
            found = kpfs("run", "--kernel", kernel, "--inside", "--", *words)
            for pair in differences(right.stdout, found.stdout):
                hunt.finding(f"a program of {width} bits", said=pair)
        first += count
        hunt.did(count)


PART = Part("programs", 10_000, 1.0, run, kernels=True)
