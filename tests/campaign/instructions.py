# SPDX-License-Identifier: GPL-2.0-or-later
"""Random programs of instructions that a processor and its kernel decide together.

They end inside a Linux kernel as on this host, whose processor must be an x86-64 one,
and those for arm64 and riscv64 as in QEMU with the same kernel.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import NamedTuple

import pytest

from bench.command import NotHereError
from tests import harness
from tests.campaign.hunt import Hunt, Part
from tests.programs.instructions import (
    TARGETS,
    Qemu,
    Target,
    build,
    differences,
    inside,
    on_host,
)

AT_ONCE = 1000  # programs of one command; QEMU starts for ten seconds


class Pair(NamedTuple):
    """Two ways to run the programs of a target, from a number on so many."""

    target: Target
    right: Callable[[int, int], str]
    found: Callable[[int, int], str]


def ready(hunt: Hunt, target: Target) -> Pair | None:
    """Make a target's programs ready; None if what they need is not there."""
    (folder := hunt.scratch / target.name).mkdir()
    try:
        if reason := harness.missing_kernels(target.kernel):
            raise NotHereError(reason)
        programs = build(target, folder)
        if target.qemu:
            right = Qemu(target, programs).said
        else:
            right = functools.partial(on_host, programs)
    except (pytest.skip.Exception, NotHereError) as error:
        hunt.did(0, f"without {target.name}: {error}")
        return None
    kpfs, kernel = harness.Kpfs(hunt.scratch), hunt.kernel or target.kernel
    return Pair(target, right, functools.partial(inside, kpfs, kernel, programs))


def run(hunt: Hunt) -> None:
    os.environ["XDG_DATA_HOME"] = str(harness.kernels())
    targets = [each for each in TARGETS if not (hunt.kernel and each.qemu)]
    pairs = [pair for each in targets if (pair := ready(hunt, each))]
    first = hunt.rng.randrange(1 << 30)
    while hunt.more() and pairs:
        count = hunt.left(AT_ONCE)
        for target, right, found in pairs:
            for lines in differences(right(first, count), found(first, count)):
                hunt.finding(f"a program for {target.name}", said=lines)
        first += count
        hunt.did(count)


PART = Part("programs", 10_000, 1.0, run, kernels=True)
