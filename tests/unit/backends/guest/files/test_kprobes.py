# SPDX-License-Identifier: GPL-2.0-or-later
"""kprobes/list, enabled, blacklist and the sysctl over the real core."""

import pytest

from kpfs.backends.guest.files.kprobes import Blacklist, Enabled, List, tags
from kpfs.backends.guest.files.sysctl import KprobesOptimization
from kpfs.base.ktypes import KAddr, Symbol
from kpfs.engine.kprobe import Kprobe, KprobeFlag
from kpfs.engine.register import disable_kprobe, register_kprobe, unregister_kprobe
from tests.there import code
from tests.unit.fakes import FakeKernel


@pytest.fixture
def kernel():
    return FakeKernel()


def test_line_of_the_kernel_proper(kernel):
    p = Kprobe(symbol_name="vfs_read")
    register_kprobe(kernel.state, p)
    line = f"{p.addr:016x}  k  vfs_read+0x0    [FTRACE]\n"
    assert List(kernel).show() == line
    disable_kprobe(kernel.state, p)
    assert List(kernel).show() == line.replace("[FT", "[DISABLED][FT")


def test_line_without_tags_and_of_a_module(kernel):
    kernel.guest.add_function("setup", module="dummy")
    p, q = (
        Kprobe(symbol_name=n, offset=9, kind=k)
        for n, k in (("setup", "r"), ("vfs_write", "k"))
    )
    for probe in (p, q):
        register_kprobe(kernel.state, probe)
    lines = sorted(List(kernel).show().splitlines())
    assert lines == [
        f"{q.addr:016x}  k  vfs_write+0x9    ",
        f"{p.addr:016x}  r  setup+0x9  dummy ",
    ]


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


def test_tags_in_order():
    both = KprobeFlag.DISABLED | KprobeFlag.OPTIMIZED | KprobeFlag.FTRACE
    assert tags(both, both) == "[DISABLED][OPTIMIZED][FTRACE]"
    assert tags(both | KprobeFlag.GONE, KprobeFlag.FTRACE) == "[GONE][FTRACE]"
    assert tags(0, 0) == ""


def test_colocated_newest_first(kernel):
    first, second = Kprobe(symbol_name="vfs_read"), Kprobe(symbol_name="vfs_read")
    second.kind = "r"
    register_kprobe(kernel.state, first)
    register_kprobe(kernel.state, second)
    assert [line.split()[1] for line in List(kernel).show().splitlines()] == ["r", "k"]


def test_enabled(kernel):
    enabled, p = Enabled(kernel), Kprobe(symbol_name="vfs_read", offset=5)
    register_kprobe(kernel.state, p)
    armed = kernel.guest.patched()
    assert armed
    assert enabled.show() == "1\n"
    enabled.store(b"0\n")
    assert (enabled.show(), kernel.guest.patched()) == ("0\n", [])
    assert code(enabled.store, b"3") == "EINVAL"
    enabled.store(b"oN")
    assert (enabled.show(), kernel.guest.patched()) == ("1\n", armed)
    unregister_kprobe(kernel.state, p)


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


def test_ten_thousand_lines(kernel):
    nops = b"\x90" * 10000
    kernel.guest.add_function("long", nops)
    for i in range(len(nops)):
        register_kprobe(kernel.state, Kprobe(symbol_name="long", offset=i))
    assert List(kernel).show().count("\n") == len(nops)
