# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of configurations, and what each leaves out."""

import errno

import pytest

from kpfs import config
from kpfs.engine.errors import KernelError
from kpfs.engine.kprobe import kprobe_ftrace, kprobe_optimized
from kpfs.engine.register import Kprobe, kprobe_optimizer, register_kprobe
from kpfs.fs.files.readme import Readme
from kpfs.fs.files.tree import TABLE, build
from kpfs.fs.node import walk
from kpfs.kernel.root import Kernel
from tests.unit.kpfs.fakes import FakeKernel


def configured(*words):
    return config.make(map(config.parse_one, words))


@pytest.mark.parametrize("option", config.OPTIONS, ids=lambda o: o.name)
def test_files_of_an_option(option):
    kernel = FakeKernel()
    kernel.config = configured(f"{option.name}=y", "DOCUMENTED_SYSCTL=y")
    root = build(kernel)
    for path in option.absent:
        walk(root, path)
    kernel.config = configured(f"{option.name}=n")
    root = build(kernel)
    for path in option.absent:
        with pytest.raises(KernelError) as refused:
            walk(root, path)
        assert refused.value.errno == errno.ENOENT
    left = {path for path, _, _ in TABLE} - kernel.config.absent()
    for path in left:
        walk(root, path)


def test_an_unknown_option_is_refused_with_those_known():
    with pytest.raises(ValueError, match="no option 'X'") as refused:
        config.parse_one("X=y")
    assert all(o.name in str(refused.value) for o in config.OPTIONS)


def test_help_names_all():
    lines = config.help_text().splitlines()
    assert len(lines) == len(config.OPTIONS)
    assert all(o.name in line for o, line in zip(config.OPTIONS, lines, strict=True))


def test_readme_tells_of_what_there_is():
    kernel = FakeKernel()
    whole = Readme(kernel).show()
    assert "kprobe_events" in whole
    assert "set_ftrace_filter" in whole
    kernel.config = configured("KPROBE_EVENTS=n", "KPROBES_ON_FTRACE=n")
    cut = Readme(kernel).show()
    assert "kprobe_events" not in cut
    assert "set_ftrace_filter" not in cut
    assert set(cut.splitlines()) < set(whole.splitlines())


@pytest.fixture
def kernel(request):
    kernel = Kernel(nr_cpus=1, quiet=True, config=configured(*request.param.split()))
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


@pytest.mark.guest
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


@pytest.mark.guest
@pytest.mark.parametrize("kernel", ["KPROBES_ON_FTRACE=n OPTPROBES=n"], indirect=True)
def test_nothing_is_a_jump_without_optprobes(kernel):
    p, code = entry_probe(kernel)
    assert not kprobe_ftrace(p)
    assert not kprobe_optimized(p)
    assert code[0] == 0xCC


def test_the_documented_sysctl():
    """sysctl -w debug.kprobes_optimization=n"""
    kernel = Kernel(quiet=True, config=configured("DOCUMENTED_SYSCTL=y"))
    root = build(kernel)
    documented = walk(root, "/sys/debug/kprobes_optimization")
    own = walk(root, "/sys/debug/kprobes-optimization")
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
