# SPDX-License-Identifier: GPL-2.0-or-later
"""Random sequences of register, unregister, enable, disable, batches and switches.

The model knows addresses and flags, nothing of text: an address is armed while it has
a probe and neither it nor everything is disabled.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KAddr
from kpfs.engine.arm import arm_all_kprobes, disarm_all_kprobes
from kpfs.engine.kprobe import NO_FLAGS, Kprobe, KprobeFlag, OptimizedKprobe
from kpfs.engine.kretprobe import Kretprobe, register_kretprobe, unregister_kretprobe
from kpfs.engine.optimizer import OPTIMIZE_DELAY, set_kprobes_optimization
from kpfs.engine.register import (
    disable_kprobe,
    enable_kprobe,
    kprobes_module_callback,
    register_kprobe,
    show_entries,
    unregister_kprobe,
    unregister_kprobes,
)
from kpfs.engine.state import ModuleState, hash_ptr
from tests.fake import BAD, ENTRY_NOP, NOP, PUSH, FakeMachine, new_state

FUNCTIONS = {
    "plain": ENTRY_NOP + NOP * 4,
    "jumps": ENTRY_NOP + PUSH * 9,
    "module": ENTRY_NOP + PUSH * 6,
}
POINTS = [
    (name, offset)
    for name, code in FUNCTIONS.items()
    for offset in (0, *range(5, len(code)))
]


@dataclass(eq=False)
class Probe:
    rp: Kretprobe | None
    kp: Kprobe
    seq: int
    disabled: bool
    gone: bool = False


@dataclass
class Entry:
    seq: int
    disabled: bool
    ftrace: bool
    aggr: bool
    gone: bool = False
    probes: list[Probe] = field(default_factory=list)  # newest first


class Model(RuleBasedStateMachine):
    @initialize()
    def boot(self):
        self.machine = FakeMachine()
        self.base = {}
        for name, code in FUNCTIONS.items():
            module = "m" if name == "module" else ""
            self.base[name] = self.machine.add_function(name, code, module=module)
        self.machine.add_function("bad", BAD * 8)
        self.st = new_state(self.machine)
        self.arch = self.st.arch
        self.entries = {}
        self.seq = 0
        self.all_disarmed = False
        self.sysctl = True
        self.loaded = True

    # ---- the model
    def addr(self, point):
        return self.base[point[0]] + point[1]

    def probes(self):
        return [p for e in self.entries.values() for p in e.probes]

    def pick(self, data):
        probes = sorted(self.probes(), key=lambda p: p.seq)
        return data.draw(st.sampled_from(probes))

    def added(self, kp, rp, disabled, point):
        self.seq += 1
        p = Probe(rp, kp, self.seq, disabled)
        name, offset = point
        entry = self.entries.get(self.addr(point))
        if entry is None:
            room = FUNCTIONS[name][offset : offset + 5] == PUSH * 5
            entry = Entry(self.seq, disabled, offset == 0, room)
            self.entries[self.addr(point)] = entry
        else:
            entry.aggr = True
            if entry.gone:
                entry.gone, entry.disabled = False, True
            if not disabled:
                entry.disabled = False
        entry.probes.insert(0, p)

    def switched_off(self, p):
        entry = self.entries[p.kp.addr]
        if p.gone or p.disabled:
            return
        p.disabled = True
        if all(q.disabled or q.gone for q in entry.probes):
            entry.disabled = True

    def removed(self, p):
        entry = self.entries[p.kp.addr]
        self.switched_off(p)
        entry.probes.remove(p)
        if not entry.probes:
            del self.entries[p.kp.addr]

    def armed(self, addr):
        entry = self.entries.get(addr)
        return bool(entry and not (entry.disabled or entry.gone or self.all_disarmed))

    # ---- rules
    @rule(point=st.sampled_from(POINTS), disabled=st.booleans(), post=st.booleans())
    def register(self, point, disabled, post):
        if point[0] == "module" and not self.loaded:
            with pytest.raises(KernelError):
                register_kprobe(self.st, Kprobe(addr=self.addr(point)))
            return
        kp = Kprobe(symbol_name=point[0], offset=point[1])
        kp.flags = KprobeFlag.DISABLED if disabled else NO_FLAGS
        kp.post_handler = print if post else None
        register_kprobe(self.st, kp)
        self.added(kp, None, disabled, point)

    @rule(name=st.sampled_from(["plain", "jumps"]), disabled=st.booleans())
    def register_return(self, name, disabled):
        rp = Kretprobe(kp=Kprobe(symbol_name=name))
        rp.kp.flags = KprobeFlag.DISABLED if disabled else NO_FLAGS
        register_kretprobe(self.st, rp)
        self.added(rp.kp, rp, disabled, (name, 0))

    @rule(
        points=st.lists(
            st.sampled_from([p for p in POINTS if p[0] != "module"]), max_size=4
        ),
        undone=st.booleans(),
    )
    def register_batch(self, points, undone):
        kps = [Kprobe(symbol_name=n, offset=o) for n, o in points]
        with self.st.arch.text_poke:
            for kp, point in zip(kps, points, strict=True):
                register_kprobe(self.st, kp)
                self.added(kp, None, False, point)
            if undone:  # that may revive some
                unregister_kprobes(self.st, kps)
                for p in [p for p in self.probes() if p.kp in kps]:
                    self.removed(p)

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def unregister(self, data):
        p = self.pick(data)
        if p.rp:
            unregister_kretprobe(self.st, p.rp)
        else:
            unregister_kprobe(self.st, p.kp)
        self.removed(p)

    @precondition(lambda self: self.entries)
    @rule(data=st.data(), strangers=st.booleans())
    def unregister_batch(self, data, strangers):
        mine = [p for p in self.probes() if not p.rp]
        if not mine:
            return
        some = data.draw(st.lists(st.sampled_from(mine), unique_by=id, max_size=5))
        kps = [p.kp for p in some]
        if strangers:
            kps.insert(0, Kprobe(addr=KAddr(self.base["plain"] + 5)))
        unregister_kprobes(self.st, kps)
        assert [kp.addr for kp in kps[: len(kps) - len(some)]] == [0] * strangers
        for p in some:
            self.removed(p)

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def enable(self, data):
        p = self.pick(data)
        entry = self.entries[p.kp.addr]
        if p.gone:
            with pytest.raises(KernelError):
                enable_kprobe(self.st, p.kp)
            return
        enable_kprobe(self.st, p.kp)
        if entry.aggr or not self.all_disarmed:
            p.disabled = False
        if not self.all_disarmed:
            entry.disabled = False

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def disable(self, data):
        p = self.pick(data)
        disable_kprobe(self.st, p.kp)
        self.switched_off(p)

    @rule(on=st.booleans())
    def switch_all(self, on):
        (arm_all_kprobes if on else disarm_all_kprobes)(self.st)
        self.all_disarmed = not on
        if not on:
            assert self.patched() == set()

    @rule(on=st.booleans())
    def switch_optimization(self, on):
        set_kprobes_optimization(self.st, on)
        self.sysctl = on
        if not on:
            assert self.patched() == self.must_be_patched()

    @rule(ns=st.sampled_from([1, OPTIMIZE_DELAY // 2, OPTIMIZE_DELAY]))
    def advance(self, ns):
        self.machine.clock.advance(ns)

    @rule()
    def quiesce(self):
        self.machine.sched.quiesce()

    @rule()
    def reload_module(self):
        base = self.base["module"]
        if self.loaded:
            kprobes_module_callback(self.st, ModuleState.GOING, "m")
            self.machine.remove_symbols([base])
            for addr, entry in self.entries.items():
                if base <= addr < base + len(FUNCTIONS["module"]):
                    entry.gone = True
                    for p in entry.probes:
                        p.gone = True
        else:
            self.machine._next[base] = base
            self.machine.map(base, FUNCTIONS["module"])
            self.machine.pristine[base] = FUNCTIONS["module"]
            self.machine.add_symbol("module", base, len(FUNCTIONS["module"]), "T", "m")
            self.machine.text.ftrace_sites.add(base)
            kprobes_module_callback(self.st, ModuleState.COMING, "m")
        self.loaded = not self.loaded

    # ---- what must hold
    def patched(self):
        return set(self.machine.patched())

    def must_be_patched(self):
        found = set()
        for addr, entry in self.entries.items():
            if self.armed(addr):
                found |= set(range(addr, addr + (5 if entry.ftrace else 1)))
        return found

    @invariant()
    def text_agrees(self):
        must, patched = self.must_be_patched(), self.patched()
        # breakpoints and calls are there at once; a jump's other bytes and a jump
        # that is being undone may be there beside them
        assert must <= patched
        for addr in patched - must:
            entries = [entry for _, entry in show_entries(self.st)]
            covering = [op for op in entries if isinstance(op, OptimizedKprobe)]
            assert any(
                op.optinsn is not None
                and op.flags & KprobeFlag.OPTIMIZED
                and op.addr <= addr < op.addr + 5
                for op in covering
            )

    @invariant()
    def list_agrees(self):
        want = [
            (p.kp, p.gone, p.disabled and not p.gone)
            for addr, entry in sorted(
                self.entries.items(), key=lambda i: (hash_ptr(i[0]), -i[1].seq)
            )
            for p in entry.probes
        ]
        shown = []
        for p, _ in show_entries(self.st):
            gone = bool(p.flags & KprobeFlag.GONE)
            disabled = bool(p.flags & KprobeFlag.DISABLED) and not gone
            shown.append((p, gone, disabled))
        assert shown == want

    @invariant()
    def guest_records_agree(self):
        arch = self.arch
        assert len(arch.handlers) == len(self.probes())
        assert len(arch.rethooks.there) == sum(p.rp is not None for p in self.probes())
        for addr, entry in self.entries.items():
            if not entry.gone:
                chain = [(p.kp, p.disabled or p.gone) for p in entry.probes]
                assert arch.sites[addr] == chain
        assert arch.text_poke.depth == 0

    def slots_needed(self):
        return sum(not e.ftrace and not e.gone for e in self.entries.values())

    @invariant()
    def slots_suffice(self):
        # one whose jump has been undone may wait for a quiescent state
        assert self.arch.slots.nr_used >= self.slots_needed()

    @invariant()
    def tags_are_allowed(self):
        for p, entry in show_entries(self.st):
            if not entry.flags & KprobeFlag.OPTIMIZED:
                continue
            assert not self.all_disarmed
            assert self.sysctl
            addr = p.addr
            if self.armed(addr):
                assert not any(self.armed(addr + i) for i in range(1, 5))
                assert not any(p.kp.post_handler for p in self.entries[addr].probes)

    def settled(self):
        self.machine.settle()
        jumps = set()
        for p, entry in show_entries(self.st):
            if entry.flags & KprobeFlag.OPTIMIZED:
                assert self.armed(p.addr)
                jumps |= set(range(p.addr, p.addr + 5))
        assert self.patched() <= self.must_be_patched() | jumps
        used = {
            addr
            for addr, e in self.entries.items()
            if e.aggr and not e.ftrace and not e.gone
        }
        assert self.arch.opt.slots.nr_used <= len(used)
        assert self.arch.slots.nr_used == self.slots_needed()
        assert not any(self.st.opt_queues.values())

    @rule()
    def settle(self):
        self.settled()

    def teardown(self):
        if not hasattr(self, "st"):
            return
        self.settled()
        for p in self.probes():
            if p.rp:
                unregister_kretprobe(self.st, p.rp)
            else:
                unregister_kprobe(self.st, p.kp)
        assert self.patched() == set()
        self.machine.settle()
        assert not self.st.kprobe_table
        assert not self.st.opt_covered
        assert not self.arch.handlers
        assert not self.arch.rethooks.there
        assert not self.arch.sites
        assert self.arch.slots.nr_used == 0
        assert self.arch.opt.slots.nr_used == 0


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
