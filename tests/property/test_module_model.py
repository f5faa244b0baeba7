# SPDX-License-Identifier: GPL-2.0-or-later
"""Random sequences with modules in a guest: one has the probes, one their functions.

What is probed comes and goes; probes are registered, switched, unregistered, singly and
in batches; all are disarmed and armed; functions are called.  The model knows which
are registered, enabled or gone, and so which are hit and which text is patched.
"""

import errno
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.modbox import Box, build, need_compiler

pytestmark = pytest.mark.guest
NR = 8
PLACES = [("first", 0)] * 2 + [("first", 5), ("second", 0)]
PLACES += [("first", 0), ("second", 0), ("first", 0), ("first", 0)]
KINDS = "kkkkrrjj"
JPROBES = (6, 7)
# never a jump, because of the entry nop
FTRACE = {("first", 0), ("second", 0)}
INDICES = st.integers(0, NR - 1)
# of one kind each: (first, number)
BATCHES = st.sampled_from(
    [(0, 1), (0, 2), (1, 2), (1, 3), (4, 1), (4, 2), (6, 1), (6, 2)]
)
TEXT_SIZE = 256


@dataclass
class Entry:
    """An entry of the kernel's table at an address: one probe, or an aggregate."""

    aggr: bool
    disabled: bool
    probes: dict[int, bool] = field(default_factory=dict)  # index -> disabled


class Model(RuleBasedStateMachine):
    nr_cpus = 1

    @initialize()
    def boot(self):
        need_compiler()
        self.box = Box(self.nr_cpus)
        arch = self.box.kernel.state.arch
        arch.jprobes.prepare()  # what is made once and kept
        self.heap = live_blocks(arch)
        self.box.insmod(build("model_targets"))
        self.box.insmod(build("model_probes"))
        self.loaded = self.armed = True
        self.table: dict[tuple[str, int], Entry] = {}
        self.gone: set[int] = set()
        self.hits = [0] * NR
        self.read_text()

    def teardown(self):
        if hasattr(self, "box"):
            self.agrees()
            for i in self.registered():
                self.box.call("do_unregister", i)
            self.box.settle(12)
            assert self.box.list() == []
            arch = self.box.kernel.state.arch
            for cache in self.box.kernel.state.insn_caches:
                assert cache.nr_used == 0
            assert live_blocks(arch) == self.heap
            if self.loaded:
                assert self.now() == self.text
            self.box.close()

    # ---- the text of first() and second()
    def read_text(self):
        self.start = self.box.address("first")
        self.text = self.now()

    def now(self):
        return self.box.kernel.guest.read(self.start, TEXT_SIZE)

    # ---- the model
    def registered(self):
        return {i: off for e in self.table.values() for i, off in e.probes.items()}

    def refusal(self, i):
        """Return the errno that registering i would give now, 0 for success."""
        if not self.loaded:
            return -errno.ENOENT
        if i in JPROBES and any(j in self.registered() for j in JPROBES):
            return -errno.EEXIST
        return 0

    def add(self, i, disabled):
        entry = self.table.get(PLACES[i])
        if entry is None:
            aggr = PLACES[i] not in FTRACE
            entry = self.table[PLACES[i]] = Entry(aggr, disabled)
        else:
            entry.aggr = True
            entry.disabled = entry.disabled and disabled
        entry.probes[i] = disabled

    def drop(self, i):
        entry = self.table.get(PLACES[i])
        if entry is not None and i in entry.probes:
            self.turn_off(entry, i)
            del entry.probes[i]
            if not entry.probes:
                del self.table[PLACES[i]]
        self.gone.discard(i)

    def turn_on(self, entry, i):
        # while all are disarmed the entry stays off, for good: see enable_kprobe()
        if self.armed:
            entry.disabled = False
        if self.armed or entry.aggr:
            entry.probes[i] = False

    def turn_off(self, entry, i):
        entry.probes[i] = True
        if all(entry.probes.values()):
            entry.disabled = True

    def is_hit(self, i):
        entry = self.table[PLACES[i]]
        on = self.armed and not entry.disabled and not entry.probes[i]
        return on and i not in self.gone

    # ---- probes
    @rule(i=INDICES, disabled=st.booleans())
    def register(self, i, disabled):
        if i in self.registered():
            return  # its structure must not be touched
        expected = self.refusal(i)
        assert self.box.call_int("do_register", i, int(disabled)) == expected
        if not expected:
            self.add(i, disabled)

    @rule(batch=BATCHES)
    def register_batch(self, batch):
        first, n = batch
        if any(i in self.registered() for i in range(first, first + n)):
            return
        expected = self.refusal(first)
        if not expected and batch == (6, 2):
            expected = -errno.EEXIST  # the second, and so none
        assert self.box.call_int("do_register_batch", *batch) == expected
        for i in range(first, first + n):
            if not expected or (expected == -errno.EEXIST and self.came(i, batch)):
                self.add(i, False)
        if expected:
            for i in range(first, first + n):
                self.drop(i)

    def came(self, i, batch):
        """Registered for a moment: that may leave its mark on the entry there."""
        return batch == (6, 2) and i == 6 and not self.refusal(6)

    @rule(i=INDICES)
    def unregister(self, i):
        self.box.call("do_unregister", i)
        self.drop(i)

    @rule(batch=BATCHES)
    def unregister_batch(self, batch):
        """Unregister a batch; unregistered members do not keep the others."""
        first, n = batch
        self.box.call("do_unregister_batch", *batch)
        for i in range(first, first + n):
            self.drop(i)

    @rule(i=INDICES, on=st.booleans())
    def switch(self, i, on):
        result = self.box.call_int("do_enable" if on else "do_disable", i)
        if i not in self.registered() or (on and i in self.gone):
            assert result == -errno.EINVAL
            return
        assert result == 0
        entry = self.table[PLACES[i]]
        if i in self.gone:
            return
        if on:
            self.turn_on(entry, i)
        elif not entry.probes[i]:
            self.turn_off(entry, i)

    @rule(value=st.booleans())
    def all_of_them(self, value):
        self.box.write("/kprobes/enabled", f"{value:d}\n")
        self.armed = value

    # ---- the rest
    @precondition(lambda self: self.loaded)
    @rule(outer=st.booleans(), times=st.integers(1, 3), everywhere=st.booleans())
    def call(self, outer, times, everywhere):
        name = "second" if outer else "first"
        if everywhere:
            address = self.box.address(name)
            assert self.box.call_int("do_call_everywhere", address, times) == 0
        else:
            for _ in range(times):
                assert self.box.call_int(name, 4) == (10 if outer else 5)
        for i in self.registered():
            if self.is_hit(i) and (outer or PLACES[i][0] == "first"):
                self.hits[i] += times * (self.nr_cpus if everywhere else 1)

    @rule()
    def time_passes(self):
        self.box.settle(12)

    @rule(value=st.sampled_from("01"))
    def sysctl(self, value):
        self.box.write("/sys/debug/kprobes-optimization", value + "\n")

    @precondition(lambda self: self.loaded)
    @rule()
    def unload(self):
        self.box.rmmod("model_targets")
        self.loaded = False
        self.gone.update(self.registered())

    @precondition(lambda self: not self.loaded)
    @rule()
    def load(self):
        # a probe that is gone is not armed again, and would be in the way of others
        for i in list(self.gone):
            self.unregister(i)
        self.box.settle(12)
        self.box.insmod(build("model_targets"))
        self.loaded = True
        self.read_text()

    @invariant()
    def agrees(self):
        if not hasattr(self, "box"):
            return
        box = self.box
        read = box.kernel.guest.read_u64
        at, posts = box.address("hits"), box.address("posts")
        assert [read(at + 8 * i) for i in range(NR)] == self.hits
        assert read(posts + 8) == self.hits[1]
        assert box.call_int("do_missed") == 0
        lines = box.list()
        probes = self.registered()
        assert sorted(line[0] for line in lines) == sorted(KINDS[i] for i in probes)
        assert sum("[GONE]" in line for line in lines) == len(self.gone)
        off = sum(off for i, off in probes.items() if i not in self.gone)
        assert sum("[DISABLED]" in line for line in lines) == off
        if self.loaded:
            self.check_text()

    def check_text(self):
        """Patched where it must be, there alone; jumps go in and out with a delay."""
        now, before = self.now(), self.text
        live = {p: e for p, e in self.table.items() if not self.gone & e.probes.keys()}
        for name, offset in FTRACE:
            at = self.box.address(name) - self.start
            entry = live.get((name, offset))
            patched = entry is not None and self.armed and not entry.disabled
            assert (now[at : at + 5] != before[at : at + 5]) == patched
        if not self.armed or ("first", 5) not in live:
            at = self.box.address("first") - self.start + 5
            assert now[at : at + 5] == before[at : at + 5]


class ModelOnFourCpus(Model):
    nr_cpus = 4


def live_blocks(arch):
    """Return how many blocks of the guest's memory the engine uses."""
    heap = arch.runtime.heap
    free = [*heap._free.values(), *arch.runtime._pools.values()]
    return len(heap._chunk_of) - sum(map(len, free))


SETTINGS = settings(
    max_examples=12,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)
TestOneCpu = Model.TestCase
TestOneCpu.settings = SETTINGS
TestFourCpus = ModelOnFourCpus.TestCase
TestFourCpus.settings = SETTINGS
