# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest with probes all over it answers as the guest without.

KPFS_SLOW=1: a probe on every instruction, with every kind of handler.
"""

import os

import pytest

from kpfs.base.abi import EVENT_RECORD
from kpfs.base.errors import KernelError
from kpfs.engine.arch.x86.core import X86
from kpfs.engine.kprobe import Kprobe
from kpfs.engine.kretprobe import Kretprobe, register_kretprobe, unregister_kretprobes
from kpfs.engine.register import register_kprobe, unregister_kprobes
from kpfs.engine.runtime.records import KpEvent
from kpfs.engine.state import State
from kpfs.engine.trace.ring.ring_buffer import RingBuffer
from kpfs.guest.machine import Guest

pytestmark = pytest.mark.guest

SLOW = bool(os.environ.get("KPFS_SLOW"))
KINDS = ("event", "python", "post", "mixed") if SLOW else ("mixed",)
EVERY = 1 if SLOW else 5


class Probed:
    """A guest and as many probes as it takes."""

    def __init__(self):
        self.guest = Guest(2, quiet=True)
        self.arch = X86(self.guest)
        self.state = State(self.guest, self.arch)
        self.runtime = self.arch.runtime
        RingBuffer(self.runtime).expand()
        self.event = self.runtime.make(KpEvent)
        self.event.flags, self.event.size = EVENT_RECORD, 16
        self.return_event = self.runtime.make(KpEvent)
        self.return_event.flags, self.return_event.size = EVENT_RECORD, 24
        self.task = self.guest.host_tasks.of_process(4242, 0, "cat")
        self.python_hits = 0
        self.probes, self.return_probes = [], []

    def functions(self):
        seen = set()
        for sym in self.guest.kallsyms:
            code = sym.type in "tTwW" and sym.size <= 0x4000
            if code and sym.addr not in seen:
                seen.add(sym.addr)
                yield sym, self.arch.text.function(sym.addr)

    def count(self, p, regs, *flags):
        self.python_hits += 1

    def handlers(self, kind, number):
        event = self.runtime.symbols["kp_event_handler"]
        guest, python = {"pre_handler": event}, {"pre_handler": self.count}
        post = {"post_handler": self.count}
        if kind == "mixed":
            return (guest, python, {**guest, **post}, guest, python)[number % 5]
        return {"event": guest, "python": python, "post": post}[kind]

    def probe_all(self, kind):
        symbols = self.runtime.symbols
        number = 0
        for sym, function in self.functions():
            for addr in function.index:
                number += 1
                if number % EVERY:
                    continue
                handlers = self.handlers(kind, number // EVERY)
                p = Kprobe(addr=addr, data=self.event.addr, **handlers)
                try:
                    register_kprobe(self.state, p)
                    self.probes.append(p)
                except KernelError:
                    pass
            rp = Kretprobe(
                kp=Kprobe(addr=sym.addr),
                handler=symbols["kp_event_return"] if number % 2 else self.count,
                guest_data=self.return_event.addr,
                maxactive=64,
            )
            try:
                register_kretprobe(self.state, rp)
                self.return_probes.append(rp)
            except KernelError:
                pass

    def pause(self):
        """Background work: the jumps are written, slots are freed."""
        for _ in range(100):
            self.guest.tick()

    def work(self, number):
        """Results of some system calls."""
        call, task = self.guest.syscalls.call, self.task
        results = [call(task, "getppid")]
        path = b"/tmp%d\0" % number
        fd = call(task, "openat", -100, path, 0o102, 0o644)
        results += [
            fd,
            call(task, "write", fd, b"hello world", 11),
            call(task, "lseek", fd, 0, 0),
            call(task, "read", fd, b"x" * 64, 64),
            call(task, "close", fd),
            call(task, "openat", -100, b"/nonexistent\0", 0, 0),
            call(task, "openat", -100, 0x10, 0, 0),  # a fault while copying
        ]
        other = self.guest.host_tasks.of_process(5000 + number, 0, "other")
        results.append(call(other, "getppid"))
        self.guest.host_tasks.exit(other)
        self.pause()
        return results


@pytest.fixture
def probed():
    probed = Probed()
    yield probed
    probed.guest.close()


@pytest.mark.parametrize("kind", KINDS)
def test_same_answers_with_probes_all_over(probed, kind):
    alone = probed.work(0)
    log = [record.text for record in probed.guest.log.records()]
    probed.probe_all(kind)
    assert len(probed.probes) > 20_000 // EVERY
    assert len(probed.return_probes) > 500
    assert probed.work(1) == alone  # breakpoints, in part still to become jumps
    probed.pause()
    jumps = [
        p for p in probed.state.kprobe_table.values()
        if getattr(p, "optinsn", None) and p.optinsn.in_text
    ]  # fmt: skip
    assert bool(jumps) == (kind != "post")
    assert probed.work(2) == alone
    hits = probed.python_hits + probed.event.nhit
    assert hits > 10_000 // EVERY
    assert probed.return_event.nhit > 100
    for cpu in probed.runtime.cpus:
        assert (cpu.current_kprobe, cpu.status, cpu.orphan_returns) == (0, 0, 0)
    unregister_kprobes(probed.state, probed.probes)
    unregister_kretprobes(probed.state, probed.return_probes)
    probed.pause()
    arch = probed.state.arch
    for cache in arch.core.insn_caches:
        assert cache.nr_used == 0
    assert probed.work(3) == alone
    assert hits == probed.python_hits + probed.event.nhit
    assert [record.text for record in probed.guest.log.records()] == log
