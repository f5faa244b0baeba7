# SPDX-License-Identifier: GPL-2.0-or-later
"""Hits of all kinds of probes, on 1 to 8 CPUs: all are counted, and nothing grows.

tests/modules/hammer.c has the probes of the module; events lie at the same functions.
A hit is stepped, boosted, a jump or a call, as the switches and the configuration say.
"""

from __future__ import annotations

import os
import random
from functools import partial
from pathlib import Path

from kpfs import config
from kpfs.backends.guest import tree
from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.backends.guest.vfs import Vfs
from kpfs.base.ktypes import Caller
from tests.campaign.child import in_child, resident
from tests.campaign.hunt import Hunt, Part
from tests.harness import WrongError
from tests.modbox import Box, build

CPUS_MAX = 8
LOADS = 12  # loads of the module, in one kernel
WARM = 7  # loads until caches and a guest's own life have settled
PATIENCE = 120  # s for all of them
GROWTH_MAX = 1 << 20  # bytes
TURNS = (1_000, 24_000)  # turns of all threads together
EVENTS = """
p:p_at_entry hammer:at_entry x=%di
p:p_inside hammer:inside+5 name=$comm
p:p_stepped hammer:stepped
r64:r_returning hammer:returning value=$retval
p:p_all hammer:all_at_once x=%di s=+0(%sp):x64
r64:r_all hammer:all_at_once
"""
# what the handlers of the module have counted, in calls of the function
COUNTERS = {
    **dict.fromkeys(("entry_hits", "inside_hits", "stepped_hits", "stepped_posts"), 1),
    **dict.fromkeys(("return_entries", "return_hits", "jump_hits"), 1),
    **dict.fromkeys(("all_posts", "all_returns", "all_jumps"), 1),
    "all_hits": 3,
    "wrong": 0,
}
NR_EVENTS = EVENTS.count(":p_") + EVENTS.count(":r_")
PER_TURN = 10 + NR_EVENTS  # probes that are hit when each function is called once


class Setting(Box):
    """A kernel with some switches set at random."""

    def __init__(self, cpus: int, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        self.cpus = cpus
        self.words = [
            f"{name}={rng.choice('yyn')}" for name in ("OPTPROBES", "KPROBES_ON_FTRACE")
        ]
        self.kernel = GuestKernel(
            nr_cpus=cpus,
            quiet=bool(rng.randrange(3)),
            config=config.make([config.parse_one(word) for word in self.words]),
        )
        self.vfs = Vfs(self.kernel, tree.build(self.kernel))
        self.caller = Caller(os.getpid(), 0, 0)
        self._seq = 0
        if not self.kernel.guest.quiet:
            self.kernel.background.start()
        self.write("/tracing/kprobe_events", EVENTS.strip() + "\n")
        self.write("/tracing/buffer_size_kb", f"{rng.choice((4, 64, 1408))}\n")
        self.write("/tracing/events/kprobes/enable", "1\n")
        if "OPTPROBES=y" in self.words:
            value = rng.choice("011")
            self.words.append(f"kprobes-optimization={value}")
            self.write("/sys/debug/kprobes-optimization", value)

    def load(self, module: Path, before: int) -> int:
        """Load the module once, after so many calls; return the number of its calls."""
        turns = self.rng.randint(*TURNS) // self.cpus
        self.insmod(module, f"turns={turns}")
        calls = self.int_at("calls")
        if calls != turns * self.cpus:
            raise WrongError(f"{calls} calls, not {turns * self.cpus}")
        for name, times in COUNTERS.items():
            if self.int_at(name) != times * calls:
                raise WrongError(f"{name}: {self.int_at(name)} in {calls} calls")
        for line in self.read("/tracing/kprobe_profile").splitlines():
            name, hits, missed = line.split()
            if (int(hits), int(missed)) != (before + calls, 0):
                raise WrongError(f"{line} after {before + calls} calls")
        self.rmmod("hammer")
        return calls

    def recorded(self) -> int:
        """Records of all CPUs, those that others have overwritten too."""
        total = 0
        for cpu in range(self.cpus):
            text = self.read(f"/tracing/per_cpu/cpu{cpu}/stats")
            stats = dict(line.split(": ") for line in text.splitlines())
            total += sum(
                int(stats[x]) for x in ("entries", "overrun", "dropped events")
            )
        return total


def hammer(cpus: int, seed: int, module: Path) -> tuple[int, list[str]]:
    """Hits in a kernel with so many CPUs, and how it was set."""
    box = Setting(cpus, seed)
    try:
        calls, sizes, areas = 0, [], []
        for _ in range(LOADS):
            calls += box.load(module, calls)
            sizes.append(resident())
            areas.append(list(box.kernel.guest.memory.area._free))
            if (got := box.recorded()) != calls * NR_EVENTS:
                raise WrongError(f"{got} records of {calls * NR_EVENTS} hits")
        if sizes[-1] - sizes[WARM] > GROWTH_MAX:
            raise WrongError(f"the memory grows: {sizes}")
        if areas[-1] != areas[1]:
            raise WrongError(f"the module area shrinks: {areas[1]} {areas[-1]}")
        return calls * PER_TURN, box.words
    except WrongError as error:
        raise WrongError(
            f"{error} ({box.words}, quiet: {box.kernel.guest.quiet})"
        ) from None
    finally:
        box.close()


def run(hunt: Hunt) -> None:
    module = build("hammer")
    cpus = 0
    while hunt.more():
        cpus = cpus % CPUS_MAX + 1
        seed = hunt.rng.getrandbits(32)
        answer = in_child(partial(hammer, cpus, seed, module), PATIENCE)
        if answer.wrong:
            hunt.finding(f"{cpus} CPUs, seed {seed}: {answer.wrong}")
        if answer.value:
            hunt.did(answer.value[0], "kernels", *answer.value[1])


PART = Part("hits", 10_000_000, 1, run)
