# SPDX-License-Identifier: GPL-2.0-or-later
"""kprobes/list, enabled, blacklist and the sysctl over the real core."""

import pytest

from kpfs.backends.guest.files.kprobes import Blacklist, List
from kpfs.backends.guest.files.sysctl import KprobesOptimization
from kpfs.base.ktypes import KAddr, Symbol
from kpfs.engine.kprobe import Kprobe, KprobeFlag
from kpfs.engine.register import register_kprobe
from tests.unit.fakes import FakeKernel


@pytest.fixture
def kernel():
    return FakeKernel()


def test_line_where_no_symbol_covers_the_address(kernel):
    addr = kernel.guest.add_function("setup", module="dummy")
    p = Kprobe(symbol_name="setup")
    register_kprobe(kernel.state, p)
    file = List(kernel)
    assert file.show() == f"{addr:016x}  k  setup+0x0  dummy [FTRACE]\n"
    kernel.guest.remove_symbols([addr])
    assert file.show() == f"{addr:016x}  k  0x{addr:016x} [FTRACE]\n"
    p.flags |= KprobeFlag.GONE
    assert file.show() == f"{addr:016x}  k  0x{addr:016x} [GONE][FTRACE]\n"


def test_blacklist(kernel):
    kernel.guest.add_blacklist(Symbol("do_trap", KAddr(0x1000), 0x10, "t"))
    kernel.state.load_blacklist()
    text = "0x0000000000001000-0x0000000000001010\tdo_trap\n"
    assert Blacklist(kernel).show() == text


def test_sysctl(kernel):
    file = KprobesOptimization(kernel)
    assert file.show() == "1\n"
    assert file.store(b"0 1\n") == 2
    assert (file.show(), kernel.state.kprobes_allow_optimization) == ("0\n", False)
    assert file.store(b"1\n") == 2
    assert kernel.state.kprobes_allow_optimization
