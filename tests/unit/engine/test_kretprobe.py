# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.engine.kretprobe: registering return probes.

This also tests kpfs.engine.rethook.
"""

import errno

import pytest

from kpfs.base.errors import KernelError
from kpfs.engine.kprobe import Kprobe
from kpfs.engine.kretprobe import (
    Kretprobe,
    kretprobe_nmissed,
    register_kretprobe,
    unregister_kretprobe,
)
from tests.fake import NOP, TRAP, FakeMachine, new_state


@pytest.fixture
def machine():
    machine = FakeMachine()
    for name in ("f", "g", "__switch_to", "nokprobe"):
        machine.add_function(name)
    machine.add_function("odd", TRAP + NOP * 9)
    machine.add_blacklist(machine.kallsyms.lookup_name("nokprobe")[0])
    return machine


def ret(name="f", **fields):
    return Kretprobe(kp=Kprobe(symbol_name=name), **fields)


def refusal(st, rp):
    with pytest.raises(KernelError) as e:
        register_kretprobe(st, rp)
    assert not st.kprobe_table
    assert not st.arch.rethooks.there
    assert not st.arch.handlers
    assert not rp.addr
    return errno.errorcode[e.value.errno]


@pytest.mark.parametrize(
    ("given", "cpus", "used"),
    [(0, 2, 10), (-5, 2, 10), (0, 8, 16), (1, 8, 1), (50, 2, 50)],
)
def test_maxactive(given, cpus, used):
    machine = FakeMachine(nr_cpus=cpus)
    machine.add_function("f")
    st = new_state(machine)
    register_kretprobe(st, rp := ret(maxactive=given))
    assert rp.maxactive == used


@pytest.mark.parametrize(
    ("rp", "answer"),
    [
        (Kretprobe(kp=Kprobe(symbol_name="f", offset=5)), "EINVAL"),
        (Kretprobe(kp=Kprobe(symbol_name="nosuch")), "ENOENT"),
        (Kretprobe(), "EINVAL"),
        (ret("__switch_to"), "EINVAL"),
        (ret("nokprobe"), "EINVAL"),
        (ret("odd"), "EINVAL"),
        (ret(data_size=4097), "E2BIG"),
    ],
)
def test_refusals(st, rp, answer):
    assert refusal(st, rp) == answer


def test_no_memory_for_instances(st):
    st.arch.fail["rethooks.alloc"] = errno.ENOMEM
    assert refusal(st, ret()) == "ENOMEM"


def test_by_address(st, machine):
    addr = machine.kallsyms.lookup_name("f")[0].addr
    register_kretprobe(st, rp := Kretprobe(kp=Kprobe(addr=addr)))
    with pytest.raises(KernelError, match="EINVAL: is registered already"):
        register_kretprobe(st, rp)
    assert len(st.arch.rethooks.there) == 1


def test_nmissed_outlives_the_probe(st):
    register_kretprobe(st, rp := ret())
    st.arch.rethooks.there[rp.addr] = 4
    assert kretprobe_nmissed(st, rp) == 4
    unregister_kretprobe(st, rp)
    assert kretprobe_nmissed(st, rp) == rp.nmissed == 4
    rp.kp.addr = 0
    register_kretprobe(st, rp)
    assert kretprobe_nmissed(st, rp) == 0
