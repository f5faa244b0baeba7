# SPDX-License-Identifier: GPL-2.0-or-later
"""Verdicts on a kernel of a distribution, held to what it does when it is asked.

KPFS_POINTS is the number of probe points, and KPFS_SEED chooses them.

Tests kpfs.explain.linux, kpfs.explain.tables, kpfs.linux.memory.modules and
kpfs.linux.memory.ftrace.
"""

import os

import pytest

from kpfs.base import syscall_numbers as nr
from kpfs.base.ktypes import Caller
from kpfs.explain.kernels import explainer_of
from kpfs.explain.linux import UnprobedTables
from kpfs.explain.tables import read_blacklist_line
from kpfs.explain.verdicts import errno_name, judging_state
from kpfs.linux.arch.arches import MIPS64, RISCV64
from kpfs.linux.running import loading
from kpfs.linux.running.machine import Op, Out
from tests import harness
from tests.probe_points import ENABLE, EVENTS, choose, differences, explain

X86_VERDICTS = "OPTIMIZED", "FTRACE", "none", "EILSEQ"
ARM64_VERDICTS = "none", "EINVAL"
RISCV64_VERDICTS = "none", "EINVAL", "EILSEQ"
S390X_VERDICTS = "none", "FTRACE", "EINVAL"
ARMHF_VERDICTS = "OPTIMIZED", "EINVAL"
I386_VERDICTS = X86_VERDICTS
MIPS64_VERDICTS = "none", "EINVAL"
PPC64_VERDICTS = "OPTIMIZED", "FTRACE", "none", "EINVAL"
pytestmark = [pytest.mark.long]
# kernels, and the verdicts that must occur
KERNELS = [
    harness.on(harness.KERNEL, X86_VERDICTS),
    harness.on(harness.ARM64, ARM64_VERDICTS),
    harness.on(harness.RISCV64, RISCV64_VERDICTS),
    harness.on(harness.S390X, S390X_VERDICTS),
    harness.on(harness.PPC64, PPC64_VERDICTS, marks=[pytest.mark.slow]),
    harness.on(harness.ARMHF, ARMHF_VERDICTS),
    harness.on(harness.I386, I386_VERDICTS),
    harness.on(harness.MIPS64, MIPS64_VERDICTS),
]
OLD_PPC64 = harness.on(harness.OLD_PPC64, PPC64_VERDICTS, marks=[pytest.mark.slow])

POINTS = int(os.environ.get("KPFS_POINTS", "100"))
SEED = int(os.environ.get("KPFS_SEED", "1"))


@pytest.fixture
def linux(boot, kernel_name):
    """A kernel whose time passes only by what it executes."""
    return boot(kernel_name)


def compare(shell, image, st, addrs, verdicts):
    """Fail if the kernel differs, or one of the verdicts has not occurred."""
    seen = dict.fromkeys(verdicts, 0)
    wrong = list(differences(shell, image, st, addrs, seen))
    assert not wrong, f"{len(wrong)} of {len(addrs)}: {wrong[:20]}"
    assert min(seen.values()) > 0, seen


@pytest.mark.parametrize(("kernel_name", "verdicts"), [*KERNELS, OLD_PPC64])
def test_verdicts_are_the_kernels(linux, shell, verdicts):
    image, st = explain(linux)
    told = shell.read("/sys/kernel/debug/kprobes/blacklist").splitlines()
    assert image.blacklist() == [read_blacklist_line(line) for line in told]
    names = linux.symbols.functions()
    addrs = choose(linux.symbols, names, image, POINTS, SEED)
    compare(shell, image, st, addrs, verdicts)


@pytest.mark.parametrize(
    ("kernel_name", "verdicts"),
    [
        *KERNELS[:2],
        pytest.param(*KERNELS[2].values, marks=(*KERNELS[2].marks, pytest.mark.slow)),
        pytest.param(*KERNELS[3].values, marks=(*KERNELS[3].marks, pytest.mark.slow)),
        harness.on(harness.PPC64, PPC64_VERDICTS[1:], marks=[pytest.mark.slow]),
        *KERNELS[5:],
    ],
)
def test_verdicts_on_modules_are_the_kernels(linux, shell, verdicts):
    """Probes that stand in their text meanwhile do not count.

    Modules of ppc64 are too far away for jumps.
    """
    with linux.lock:
        for name in ("nf_conntrack", "xfs"):
            loading.load_named(linux, shell.task, name)
    image = UnprobedTables.of(linux)
    (inside,) = image.kallsyms.lookup_name("xfs:xfs_file_read_iter")
    # the first ones may have the place of ftrace's call
    rows = image.judge.listing(inside.addr, inside.size, hex)[2:]
    third = next(at for at, _, _ in rows if not image.ftrace_location(at, at))
    entries = linux.arch not in (RISCV64, MIPS64)  # they have ftrace's calls there
    probed = (hex(third), *("xfs:xfs_file_open", "nf_conntrack_in") * entries)
    for number, place in enumerate(probed):
        shell.echo(EVENTS, f"p:kprobes/m{number} {place}", os.O_APPEND)
    shell.echo(ENABLE, "1")
    image = UnprobedTables.of(linux)
    st = judging_state(image, image.judge)
    st.module_states.update(image.module_states)
    shell.echo(ENABLE, "0")
    shell.echo(EVENTS, "")
    names = [n for module in image.kallsyms.modules for n in module.functions()]
    addrs = choose(image.kallsyms, names, image, POINTS, SEED)
    assert len({image.module_of(addr) for addr in addrs}) > 1
    compare(shell, image, st, addrs, verdicts)


NORETURN = "do_exit", "do_group_exit"
RETURNING = "__x64_sys_getppid", "__x64_sys_read"  # the second ends in a jump


@pytest.mark.kernel
@pytest.mark.parametrize("kernel_name", [harness.KERNEL])
def test_functions_that_never_return(linux, shell):
    """A function that ends in a jump does: what it jumps to returns in its place."""
    explainer = explainer_of(linux)
    for name in (*NORETURN, *RETURNING):
        shell.echo(EVENTS, f"p:kprobes/entry_{name} {name}", os.O_APPEND)
        shell.echo(EVENTS, f"r:kprobes/return_{name} {name}", os.O_APPEND)
    shell.echo(ENABLE, "1")
    with linux.lock:
        child = linux.tasks.fork(shell.task, Caller(4_100_000, 0, 0), "child")
        linux.tasks.exit(child)
    shell.getppid()
    shell.call(Op(nr.READ, (-1, Out(8), 8)))
    rows = map(str.split, shell.read("/sys/kernel/tracing/kprobe_profile").splitlines())
    hits = {event: int(count) for event, count, _ in rows}
    for name in (*NORETURN, *RETURNING):
        why = explainer.fate(name).ways["kretprobe"]
        assert why == (f"{name} never returns" if name in NORETURN else ""), name
        assert hits[f"entry_{name}"] > 0
        assert (hits[f"return_{name}"] > 0) is not bool(why)


@pytest.mark.kernel
@pytest.mark.parametrize("kernel_name", [harness.KERNEL])
def test_functions_of_modules_return(linux, shell):
    """Names of a module's functions have the module behind them."""
    with linux.lock:
        loading.load_named(linux, shell.task, "xfs")
    explainer = explainer_of(linux)
    (xfs,) = (m for m in UnprobedTables.of(linux).kallsyms.modules if m.name == "xfs")
    names = [name for name in xfs.functions() if ".cold" not in name]
    ways = [explainer.fate(f"xfs:{name}").ways["kretprobe"] for name in names[::10]]
    never = [why for why in ways if why.endswith("never returns")]
    assert len(never) <= 1 < len(ways), never  # one may end in BUG()


@pytest.mark.kernel
@pytest.mark.parametrize("kernel_name", [harness.KERNEL])
def test_ftrace_may_be_off(linux, shell):
    """Probes at entries are not hit then; those elsewhere are."""
    hint = "not hit as long as kernel.ftrace_enabled is 0"
    shell.echo(EVENTS, "p:kprobes/entry __x64_sys_getppid", os.O_APPEND)
    shell.echo(EVENTS, "p:kprobes/inside __x64_sys_getppid+11", os.O_APPEND)
    shell.echo(ENABLE, "1")
    for off in (False, True, False):
        shell.echo("/proc/sys/kernel/ftrace_enabled", str(int(not off)))
        shell.echo("/sys/kernel/tracing/trace", "")
        shell.getppid()
        trace = shell.read("/sys/kernel/tracing/trace")
        assert ("entry:" in trace) is not off, trace
        fate = explainer_of(linux).fate("__x64_sys_getppid")
        assert (hint in fate.hints) is off


# data, init text that is freed, a name that stands twice, one that there is not
PLACES = "jiffies", "linux_banner", "start_kernel", "load_elf_phdrs", "no_such_name"
OF_MODULES = "xfs:xfs_file_operations", "xfs:xfs_file_operations+8", "xfs:no_such_name"


@pytest.mark.kernel
@pytest.mark.parametrize("kernel_name", [harness.KERNEL])
def test_errors_for_places_of_any_kind_are_the_kernels(linux, shell):
    with linux.lock:
        loading.load_named(linux, shell.task, "xfs")
    explainer = explainer_of(linux)
    for place in (*PLACES, *OF_MODULES):
        made = shell.write(EVENTS, f"p {place}", os.O_APPEND)
        verdict, words = explainer.explain(place)
        assert errno_name(-made) == verdict.name, words
