# SPDX-License-Identifier: GPL-2.0-or-later
"""A bare machine with the engine on it."""

from typing import cast

import pytest

from kpfs.engine.arch.x86.core import X86
from kpfs.engine.kprobe import Kprobe
from kpfs.engine.machine import Machine
from kpfs.engine.register import register_kprobe
from kpfs.engine.state import State
from tests.unit.engine.arch.bare import BareMachine


class Box:
    """Machine, engine, and the shortest ways to use them."""

    def __init__(self, functions, **config):
        self.machine = BareMachine(functions)
        machine = cast(Machine, self.machine)  # as far as the hit path goes
        self.arch = X86(machine)
        self.state = State(machine, self.arch, **config)
        self.runtime = self.arch.runtime
        self.seen = []

    def probe(self, name, offset=0, **fields):
        p = Kprobe(symbol_name=name, offset=offset, **fields)
        register_kprobe(self.state, p)
        return p

    def note(self, what):
        """A handler that notes what and the ip."""
        return lambda p, regs, *rest: self.seen.append((what, regs.ip))

    def text(self, name, size=8):
        return self.machine.read(self.machine.addr(name), size)

    def call(self, name, *args):
        return self.machine.call(self.machine.addr(name), *args)

    def cpu_state(self):
        cpu = self.runtime.cpus[0]
        return cpu.current_kprobe, cpu.status


@pytest.fixture
def box():
    """Box(functions): a machine with these functions and the engine."""
    made = []

    def make(functions, **config):
        made.append(Box(functions, **config))
        return made[-1]

    yield make
    for one in made:
        one.machine.cpu_.close()
