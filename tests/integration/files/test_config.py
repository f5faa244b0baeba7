# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest without an option of the configuration.

This also tests kpfs.engine.trace.trace_options and kpfs.backends.guest.files.sysctl.
"""

import errno

import pytest

from kpfs import config
from kpfs.backends.guest.root.guest_kernel import GuestKernel
from kpfs.backends.guest.tree import build
from kpfs.base.errors import KernelError
from kpfs.engine.kprobe import Kprobe, kprobe_ftrace, kprobe_optimized
from kpfs.engine.optimizer import kprobe_optimizer
from kpfs.engine.register import register_kprobe
from tests.there import file_at

pytestmark = pytest.mark.guest


def configured(*words):
    return config.make(map(config.parse_one, words))


@pytest.fixture
def kernel(request):
    kernel = GuestKernel(
        nr_cpus=1, quiet=True, config=configured(*request.param.split())
    )
    yield kernel
    kernel.stop()


def entry_probe(kernel):
    """A probe at the entry of vfs_read, once the optimizer has been."""
    p = Kprobe(symbol_name="vfs_read", pre_handler=lambda *_: 0)
    register_kprobe(kernel.state, p)
    kprobe_optimizer(kernel.state)
    kernel.guest.tick()
    code = kernel.guest.read(p.addr, 5)
    return kernel.state.kprobe_table[p.addr], code


@pytest.mark.parametrize("kernel", ["KPROBES_ON_FTRACE=n"], indirect=True)
def test_entries_become_jumps_without_ftrace(kernel):
    p, code = entry_probe(kernel)
    assert not kprobe_ftrace(p)
    assert kprobe_optimized(p)
    assert code[0] == 0xE9
    assert kernel.trace.tracers == ("nop",)
    assert "function-trace" not in kernel.trace.options.text("nop")
    with pytest.raises(KernelError):
        kernel.trace.options.store(b"nofunction-trace", "nop")


@pytest.mark.parametrize("kernel", ["KPROBES_ON_FTRACE=n OPTPROBES=n"], indirect=True)
def test_nothing_is_a_jump_without_optprobes(kernel):
    p, code = entry_probe(kernel)
    assert not kprobe_ftrace(p)
    assert not kprobe_optimized(p)
    assert code[0] == 0xCC


def test_the_documented_sysctl():
    """sysctl -w debug.kprobes_optimization=n"""
    kernel = GuestKernel(quiet=True, config=configured("DOCUMENTED_SYSCTL=y"))
    root = build(kernel)
    documented = file_at(root, "/sys/debug/kprobes_optimization")
    own = file_at(root, "/sys/debug/kprobes-optimization")
    for data, shown in ((b"n\n", "0\n"), (b"Y", "1\n"), (b"0\n", "0\n")):
        assert documented.store(data) == len(data)
        assert (documented.show(), own.show()) == (shown, shown)
    for data in (b"yes", b"2", b"yn", b""):
        with pytest.raises(KernelError) as refused:
            documented.store(data)
        assert refused.value.errno == errno.EINVAL
    with pytest.raises(KernelError):
        own.store(b"n\n")
    kernel.stop()
