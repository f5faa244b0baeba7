# SPDX-License-Identifier: GPL-2.0-or-later
"""Verdicts on a kernel of a distribution, held to what it does when it is asked.

KPFS_POINTS is the number of probe points, and KPFS_SEED chooses them.

Tests kpfs.explain.linux, kpfs.explain.tables, kpfs.linux.memory.modules and
kpfs.linux.memory.ftrace.
"""

import os
import random
import re

import pytest

from kpfs.base.errors import KernelError
from kpfs.engine.register import kprobe_addr
from kpfs.explain.kernels import explainer_of
from kpfs.explain.linux import UnprobedTables
from kpfs.explain.tables import read_blacklist_line
from kpfs.explain.verdicts import errno_name, judge, judging_state
from kpfs.linux.arch.arches import RISCV64
from kpfs.linux.running import loading
from tests import harness

X86_VERDICTS = "OPTIMIZED", "FTRACE", "none", "EILSEQ"
ARM64_VERDICTS = "none", "EINVAL"
RISCV64_VERDICTS = "none", "EINVAL", "EILSEQ"
pytestmark = [pytest.mark.long]
# kernels, and the verdicts that must occur
KERNELS = [
    pytest.param(harness.KERNEL, X86_VERDICTS, marks=pytest.mark.kernel),
    pytest.param(harness.ARM64, ARM64_VERDICTS, marks=pytest.mark.arm64_kernel),
    pytest.param(harness.RISCV64, RISCV64_VERDICTS, marks=pytest.mark.riscv64_kernel),
]

POINTS = int(os.environ.get("KPFS_POINTS", "100"))
BATCH = 50
EVENTS = "/sys/kernel/tracing/kprobe_events"
ENABLE = "/sys/kernel/tracing/events/kprobes/enable"
LINE = re.compile(r"([0-9a-f]+)  k  \S+ +(?:\S+ +)?((?:\[\w+\])*)\n")


@pytest.fixture
def linux(boot, kernel_name):
    """A kernel whose time passes only by what it executes."""
    return boot(kernel_name)


def explain(linux):
    image = UnprobedTables.of(linux)
    return image, judging_state(image, image.judge)


def choose(symbols, names, image, number):
    """Addresses, each in another function; one in five is within an instruction."""
    chance = random.Random(int(os.environ.get("KPFS_SEED", "1")))
    names = sorted(dict.fromkeys(names))
    found: dict[int, int] = {}
    while len(found) < number:
        symbol = chance.choice(symbols.lookup_name(chance.choice(names)))
        if not symbol.size or not image.is_text(symbol.addr):
            continue
        if chance.random() < 0.2:
            addr = symbol.addr + chance.randrange(symbol.size)
        else:
            rows = image.judge.listing(symbol.addr, symbol.size, hex)
            addr = chance.choice([row[0] for row in rows])
        found[symbol.addr] = addr
    return list(found.values())


def expected(st, arch, addr):
    """Errno or tag by our verdict, and the reason."""
    try:
        at, _ = kprobe_addr(st, addr, None, 0)
        verdict = judge(st, arch, at)
    except KernelError as refused:
        return errno_name(refused.errno), refused.why
    why = verdict.why or (verdict.jump.why_not if verdict.jump else "")
    return (verdict.name if verdict.errno else verdict.tag), why


def asked(shell, addrs):
    """Probe all of these addresses; return the kernel's errno or tag by address."""
    found = {}
    for number, addr in enumerate(addrs):
        made = shell.write(EVENTS, f"p:kprobes/e{number} {addr:#x}", os.O_APPEND)
        found[addr] = errno_name(-made) if made else "?"
    if "?" in found.values():
        shell.echo(ENABLE, "1")
        listed = shell.read("/sys/kernel/debug/kprobes/list")
        tags = {int(at, 16): tag for at, tag in LINE.findall(listed)}
        for addr in found:
            if found[addr] == "?":
                # a probe on a landing pad is moved behind it
                tag = tags.get(addr, tags.get(addr + 4, "[not listed]"))
                found[addr] = tag.strip("[]") or "none"
        shell.echo(ENABLE, "0")
        shell.echo(EVENTS, "")
    return found


def compare(shell, image, st, addrs, verdicts):
    """Fail if the kernel differs, or one of the verdicts has not occurred."""
    wrong, seen = [], dict.fromkeys(verdicts, 0)
    for start in range(0, len(addrs), BATCH):
        for addr, real in asked(shell, addrs[start : start + BATCH]).items():
            ours, why = expected(st, image.judge, addr)
            seen[ours] = seen.get(ours, 0) + 1
            if ours != real:
                wrong.append((image.kallsyms.name_of(addr), real, ours, why))
    assert not wrong, f"{len(wrong)} of {len(addrs)}: {wrong[:20]}"
    assert min(seen.values()) > 0, seen


@pytest.mark.parametrize(("kernel_name", "verdicts"), KERNELS)
def test_verdicts_are_the_kernels(linux, shell, verdicts):
    image, st = explain(linux)
    told = shell.read("/sys/kernel/debug/kprobes/blacklist").splitlines()
    assert image.blacklist() == [read_blacklist_line(line) for line in told]
    names = linux.symbols.functions()
    compare(shell, image, st, choose(linux.symbols, names, image, POINTS), verdicts)


@pytest.mark.parametrize(
    ("kernel_name", "verdicts"),
    [
        *KERNELS[:2],
        pytest.param(*KERNELS[2].values, marks=(*KERNELS[2].marks, pytest.mark.slow)),
    ],
)
def test_verdicts_on_modules_are_the_kernels(linux, shell, verdicts):
    """Probes that stand in their text meanwhile do not count."""
    with linux.lock:
        for name in ("nf_conntrack", "xfs"):
            loading.load_named(linux, shell.task, name)
    image = UnprobedTables.of(linux)
    (inside,) = image.kallsyms.lookup_name("xfs:xfs_file_read_iter")
    # on arm64 the second is the place of a call, and on riscv64 the first
    third = image.judge.listing(inside.addr, inside.size, hex)[2][0]
    entries = linux.arch is not RISCV64
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
    addrs = choose(image.kallsyms, names, image, POINTS)
    assert len({image.module_of(addr) for addr in addrs}) > 1
    compare(shell, image, st, addrs, verdicts)


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
