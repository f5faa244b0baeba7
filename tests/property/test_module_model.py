# SPDX-License-Identifier: GPL-2.0-or-later
"""Random sequences with modules in a guest: one has the probes, one their functions.

What is probed comes and goes; probes are registered, switched, unregistered; functions
are called.  The model knows who is registered, enabled or gone, and so who is hit.
"""

import errno

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.modbox import Box, build

pytestmark = pytest.mark.guest
NR = 8
PLACES = [("first", 0)] * 2 + [("first", 5), ("second", 0)]
PLACES += [("first", 0), ("second", 0), ("first", 0), ("first", 0)]
KINDS = "kkkkrrjj"
JPROBES = (6, 7)
INDICES = st.integers(0, NR - 1)


class Model(RuleBasedStateMachine):
    nr_cpus = 1

    @initialize()
    def boot(self):
        self.box = Box(self.nr_cpus)
        self.box.kernel.state.arch  # noqa: B018 (built before the slots are counted)
        self.box.insmod(build("model_targets"))
        self.box.insmod(build("model_probes"))
        self.loaded = True
        self.enabled: dict[int, bool] = {}
        self.gone: set[int] = set()
        self.hits = [0] * NR
        start = self.box.address("first")
        self.text = start, self.box.kernel.guest.read(start, 256)

    def teardown(self):
        if hasattr(self, "box"):
            for i in list(self.enabled):
                self.box.call("do_unregister", i)
            self.settle()
            assert self.box.list() == []
            arch = self.box.kernel.state.arch
            for cache in (arch.insn_slots, arch.stubs.slots, arch.opt.optinsn_slots):
                assert cache.nr_used == 0
            if self.loaded:
                self.check_text()
            self.box.close()

    def settle(self):
        for _ in range(12):
            self.box.kernel.guest.tick()

    def check_text(self):
        start, before = self.text
        assert self.box.kernel.guest.read(start, len(before)) == before

    # ---- probes
    def refusal(self, i):
        """What registering i is refused with now, 0 if it is not."""
        if i in self.enabled:
            return -errno.EINVAL
        if not self.loaded:
            return -errno.ENOENT
        if i in JPROBES and any(j in self.enabled for j in JPROBES):
            return -errno.EEXIST
        return 0

    @rule(i=INDICES, disabled=st.booleans())
    def register(self, i, disabled):
        expected = self.refusal(i)
        if expected == -errno.EINVAL:
            return  # its structure must not be touched
        if i in JPROBES and any(j in self.gone for j in JPROBES):
            return
        assert self.box.call("do_register", i, int(disabled)) == expected
        if not expected:
            self.enabled[i] = not disabled

    @rule(first=st.integers(0, 2), n=st.integers(1, 2))
    def register_batch(self, first, n):
        batch = range(first, first + n)
        if any(i in self.enabled for i in batch):
            return
        expected = 0 if self.loaded else -errno.ENOENT
        assert self.box.call("do_register_batch", first, n) == expected
        if not expected:
            self.enabled.update(dict.fromkeys(batch, True))

    @rule(i=INDICES)
    def unregister(self, i):
        self.box.call("do_unregister", i)
        self.enabled.pop(i, None)
        self.gone.discard(i)

    @rule(i=INDICES, on=st.booleans())
    def switch(self, i, on):
        result = self.box.call("do_enable" if on else "do_disable", i)
        if i not in self.enabled or (on and i in self.gone):
            assert result == -errno.EINVAL
            return
        assert result == 0
        if i not in self.gone:
            self.enabled[i] = on

    # ---- the rest
    @precondition(lambda self: self.loaded)
    @rule(outer=st.booleans(), times=st.integers(1, 3))
    def call(self, outer, times):
        for _ in range(times):
            value = self.box.call("second" if outer else "first", 4)
            assert value == (10 if outer else 5)
            for i, on in self.enabled.items():
                reached = outer or PLACES[i][0] == "first"
                if on and reached and i not in self.gone:
                    self.hits[i] += 1

    @rule()
    def time_passes(self):
        self.settle()

    @rule(value=st.sampled_from("01"))
    def sysctl(self, value):
        self.box.write("/sys/debug/kprobes-optimization", value + "\n")

    @precondition(lambda self: self.loaded)
    @rule()
    def unload(self):
        self.box.rmmod("model_targets")
        self.loaded = False
        self.gone.update(self.enabled)

    @precondition(lambda self: not self.loaded)
    @rule()
    def load(self):
        # a probe that is gone is not armed again, and would be in the way of others
        for i in list(self.gone):
            self.unregister(i)
        self.settle()
        self.box.insmod(build("model_targets"))
        self.loaded = True
        start = self.box.address("first")
        self.text = start, build_text(self.box, start)

    @invariant()
    def agrees(self):
        if not hasattr(self, "box"):
            return
        at = self.box.address("hits")
        words = [self.box.kernel.guest.read_u64(at + 8 * i) for i in range(NR)]
        assert words == self.hits
        kinds = sorted(line[0] for line in self.box.list())
        assert kinds == sorted(KINDS[i] for i in self.enabled)
        lines = self.box.list()
        assert sum("[GONE]" in line for line in lines) == len(self.gone)
        off = sum(not on for i, on in self.enabled.items() if i not in self.gone)
        assert sum("[DISABLED]" in line for line in lines) == off


def build_text(box, start):
    """The text as it was loaded: nothing is probed yet."""
    return box.kernel.guest.read(start, 256)


class ModelOnFourCpus(Model):
    nr_cpus = 4


SETTINGS = settings(
    max_examples=12,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestOneCpu = Model.TestCase
TestOneCpu.settings = SETTINGS
TestFourCpus = ModelOnFourCpus.TestCase
TestFourCpus.settings = SETTINGS
