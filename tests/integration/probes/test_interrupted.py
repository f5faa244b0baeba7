# SPDX-License-Identifier: GPL-2.0-or-later
"""A task interrupted inside the bytes that a jump is going to replace."""

from collections.abc import Callable

import pytest

from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.base.ktypes import KAddr
from kpfs.engine.arch.x86.checks.optimize import Obstacle, can_optimize
from kpfs.engine.arch.x86.core import X86
from kpfs.engine.kprobe import Kprobe
from kpfs.engine.optimizer import kprobe_optimizer
from kpfs.engine.register import register_kprobe
from kpfs.guest.emu.cpu_registers import REG_IP
from tests.guest import hook_code
from tests.there import there

pytestmark = pytest.mark.guest

FUNCTION = "walk_component"  # it begins with three pushes
PATH, AT_FDCWD, O_RDONLY = "/tmp/nothing", -100, 0
JUMP, INT3 = 0xE9, 0xCC


class TornError(Exception):
    """Bytes of a jump have been run that are not its first."""


class Interrupted:
    """A kernel where a system call is interrupted in the region to become a jump."""

    def __init__(self):
        self.kernel = GuestKernel(nr_cpus=2, quiet=True)
        self.guest = self.kernel.guest
        self.cpu, self.sched = self.guest.cpus, self.guest.sched
        self.entry = self.sched.timer_entry
        arch = self.kernel.state.arch
        assert isinstance(arch, X86)
        text = arch.text
        symbol = self.guest.kallsyms.lookup_name(FUNCTION)[0]
        regions = [
            can_optimize(text, addr)
            for addr in there(text.function(symbol.addr)).index
            if symbol.addr < addr < symbol.addr + 32
        ]
        insns = max(
            (r.insns for r in regions if not isinstance(r, Obstacle)),
            key=lambda insns: sum(i.addr < insns[0].addr + 5 for i in insns),
        )
        self.addr = insns[0].addr
        self.boundaries = [i.addr - self.addr for i in insns]
        self.task = self.guest.host_tasks.of_process(60, 0, comm="a", parent=1)
        self.hits = 0
        self.interrupt_at = 0
        self.state = ""
        self.during: Callable[[], None] = lambda: None
        hook_code(self.cpu, self.addr, self.addr + 4, self._in_region)
        hook_code(self.cpu, self.entry, self.entry, self._at_entry)
        self._turn = self.sched.turn
        self.sched.turn = self._watched_turn  # type: ignore[method-assign]

    def first_byte(self):
        return self.guest.read(self.addr, 1)[0]

    def _in_region(self, _uc, addr, _size, _data):
        if addr != self.addr and self.first_byte() == JUMP:
            self.cpu._fail(TornError(hex(addr)))
        elif addr == self.interrupt_at and not self.state:
            self.state = "interrupted"
            self.guest.cpu_states.interrupt(self.cpu.active, self.entry)
            self.cpu.stop()

    def _at_entry(self, _uc, _addr, _size, _data):
        if self.state == "interrupted":
            self.state = "in the handler"
            self.cpu.stop()

    def _watched_turn(self, number):
        self._turn(number)
        if self.state == "in the handler":
            self.state = "over"
            saved = self.guest.read_u64(self.cpu.read_reg(19))
            assert self.cpu.read_reg(REG_IP) == self.entry
            assert saved == self.interrupt_at
            self.during()

    def call(self):
        args = AT_FDCWD, PATH, O_RDONLY
        return self.guest.syscalls.call(self.task, "openat", *args)

    def probe(self):
        """Put the probe in, and let the optimizer do all it may do now."""

        def handler(_p, _regs):
            self.hits += 1

        register_kprobe(
            self.kernel.state, Kprobe(addr=KAddr(self.addr), pre_handler=handler)
        )
        kprobe_optimizer(self.kernel.state)
        self.guest.quiescence.check()

    def settle(self):
        for _ in range(20):
            self.guest.tick()


def boundaries():
    kernel = Interrupted()
    kernel.kernel.guest.close()
    return [b for b in kernel.boundaries if b < 5]


@pytest.fixture(scope="module")
def offsets():
    found = boundaries()
    assert len(found) > 3
    return found


def test_the_jump_waits_for_a_task_interrupted_in_its_bytes(offsets):
    for offset in offsets:
        k = Interrupted()
        alone = k.call()
        assert alone < 0
        k.interrupt_at = k.addr + offset
        seen: list[int] = []

        def during(k=k, seen=seen):
            k.probe()
            seen.append(k.first_byte())

        k.during = during
        assert k.call() == alone
        assert k.state == "over"
        assert seen == [INT3]
        k.settle()
        assert k.first_byte() == JUMP
        before = k.hits
        assert k.call() == alone
        assert k.hits > before
        k.guest.close()


def test_without_the_wait_it_would_run_torn_bytes(offsets):
    for offset in offsets[1:]:
        k = Interrupted()
        k.call()
        k.interrupt_at = k.addr + offset

        def during(k=k):
            cpus = k.guest.cpu_states
            all_idle, cpus.all_idle = cpus.all_idle, lambda: True
            k.probe()
            cpus.all_idle = all_idle
            assert k.first_byte() == JUMP

        k.during = during
        with pytest.raises(TornError, match=hex(k.interrupt_at)):
            k.call()
        k.guest.close()
