# SPDX-License-Identifier: GPL-2.0-or-later
"""Random system calls in a guest full of probes that are switched meanwhile."""

import random

import pytest

from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.backends.guest.tree import build
from kpfs.base.errors import KernelError
from tests.fuzz.syscalls import Fuzzer
from tests.there import file_at, shown

pytestmark = pytest.mark.guest

PROBES = 300  # tried; about a fifth of them is refused
BATCH = 50  # calls between two switches
MISSED_MAX = 1 << 32
SWITCHES = (
    "/kprobes/enabled",
    "/sys/debug/kprobes-optimization",
    "/tracing/events/kprobes/enable",
)


class Probed:
    """A quiet kernel with events anywhere in its functions."""

    def __init__(self, seed):
        self.kernel = GuestKernel(nr_cpus=2, quiet=True)
        self.root = build(self.kernel)
        self.rng = random.Random(seed)
        self.fuzzer = Fuzzer(seed, self.kernel.guest)
        functions = [
            s
            for s in self.kernel.guest.kallsyms
            if s.type in "tT" and s.size > 8 and not s.module
        ]
        self.number = sum(
            self.define(i, self.rng.choice(functions)) for i in range(PROBES)
        )

    def define(self, number, symbol):
        """Return True if an event at a random place of that function is accepted."""
        kind = self.rng.choice("ppr")
        offset = 0 if kind == "r" else self.rng.choice((0, 5, self.rng.randrange(64)))
        line = f"{kind}:e{number} {symbol.name}+{offset}\n"
        kernel = self.kernel
        try:
            kernel.trace.dyn_events.run_commands(line.encode(), kernel.kprobe_events)
        except KernelError:
            return False
        return True

    def write(self, path, data):
        file_at(self.root, path).store(data)

    def profile(self):
        """(hits, misses) of all events."""
        text = shown(self.root, "/tracing/kprobe_profile")
        return [tuple(map(int, line.split()[1:])) for line in text.splitlines()]

    def run(self, batches):
        self.write("/tracing/events/kprobes/enable", b"1")
        for _ in range(batches):
            switch = self.rng.choice(SWITCHES)
            self.write(switch, b"0")
            self.fuzzer.run(BATCH)
            self.write(switch, b"1")
            self.fuzzer.run(BATCH)
            for _ in range(3):  # the optimizer, and what waits for quiescence
                self.kernel.guest.tick()


@pytest.mark.parametrize(
    ("seed", "batches"),
    [
        (3, 30),
        *(pytest.param(seed, 100, marks=pytest.mark.slow) for seed in range(4, 10)),
    ],
)
def test_the_guest_stays_sound(seed, batches):
    probed = Probed(seed)
    kernel = probed.kernel
    try:
        text_before = _texts(kernel)
        probed.run(batches)
        counts = probed.profile()
        assert sum(hits for hits, _ in counts) > batches * BATCH
        assert all(missed < MISSED_MAX for _, missed in counts)
        listed = shown(probed.root, "/kprobes/list")
        assert listed.count("[OPTIMIZED]") > 10
        assert listed.count("[FTRACE]") > 10
        assert len(listed.splitlines()) == probed.number
        probed.write("/kprobes/enabled", b"0")
        assert _texts(kernel) == text_before
    finally:
        kernel.stop()


def _texts(kernel):
    """Return all text of the kernel itself."""
    start = kernel.guest.kallsyms.lookup_name("_stext")[0].addr
    end = kernel.guest.kallsyms.lookup_name("_etext")[0].addr
    return kernel.guest.read(start, end - start)
