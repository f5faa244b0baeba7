# SPDX-License-Identifier: GPL-2.0-or-later
"""Coverage of modules: exactly what single steps see, and sources with their lines.

This also tests kpfs.emulator.coverage and kpfs.backends.guest.coverage.
"""

from collections import Counter
from contextlib import contextmanager, nullcontext

import pytest

import kpfs
from kpfs.backends.guest.coverage import GuestCoverage
from kpfs.engine.arch.x86.insn import decode, decode_all
from kpfs.guest.emu import cpu
from kpfs.guest.emu.cpu_registers import REG_IP
from tests.modbox import Box, module

WORK = r"""
TARGET int spin(int n)
{
    int i, sum = 0;

    for (i = 0; i < n; i++)
        sum += i & 1 ? i : -1;
    return sum;
}
TARGET long several(long a, long *p)
{
    p[0] = a * 3;
    p[1] = a + 5;
    p[2] = p[0] ^ p[1];
    switch (a & 7) {
    case 0: return p[0];
    case 1: return p[1] * 7;
    case 2: return p[2] + spin(3);
    case 3: memset(p, 0, 24); return 3;
    default: return a;
    }
}
TARGET long work(int n)
{
    long room[3], sum = 0;

    while (n--)
        sum += several(n, room);
    return sum;
}
TARGET int fault(int *p)
{
    int was = 7;

    asm volatile("incl often\n1: movl (%1), %0\n incl often\n incl often\n2:\n"
             ".pushsection __ex_table, \"a\"\n.balign 4\n"
             ".long 1b - ., 2b - ., 1\n.popsection" : "+r"(was) : "r"(p));
    return was;
}
INIT(return work(4) == 12345;)
EXIT(often = 0;)
"""  # fmt: skip


@pytest.fixture(scope="module")
def path():
    return module("covered", "int often;" + WORK, "-g")


@contextmanager
def stepping(box, seen):
    """Have the guest run by single steps; count the bytes of instructions begun."""
    whole = cpu.Cpu.run
    guest = box.kernel.guest

    def run(self, count=0):
        assert not count
        while True:
            at = self.read_reg(REG_IP)
            if guest.modules.at(at) is not None:
                insn = decode(guest.read(at, 15), at)
                assert insn is not None
                seen.update(range(at, insn.next_addr))
            whole(self, 1)
            if self.stopped or self.ended or self.ran_out:
                return

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu.Cpu, "run", run)
        patch.setattr(cpu.Cpu, "may_begin", lambda _: False)  # by run()
        yield


def starts(guest):
    """Return the addresses of the instructions of modules' text, as it was loaded."""
    for mod in guest.modules:
        for index, place in mod.layout.places.items():
            section = mod.file.sections[index]
            if section.flags & 4 and section.size:
                code = bytes(mod.file.linked[index])
                yield from (insn.addr for insn in decode_all(code, place, len(code)))


class Bytes(GuestCoverage):
    """Coverage that can be asked for each byte, also of text that is gone."""

    def __init__(self):
        super().__init__()
        self.gone: Counter[int] = Counter()

    def counts(self):
        return sum((run_of(text) for _, text in self._texts.values()), self.gone)

    def end(self, address):
        if address in self._texts:
            self.gone += run_of(self._texts[address][1])
        super().end(address)


def run_of(text):
    return Counter({a: n for begin, end, n in text.runs() for a in range(begin, end)})


def probed(box, *points):
    for number, point in enumerate(points):
        box.write("/tracing/kprobe_events", f"p:p{number} {point}\n")
        box.write(f"/tracing/events/kprobes/p{number}/enable", "1\n")
    box.settle()


def scenario(box, path, points, watched):
    """watched: makes the context in which modules run."""
    box.insmod(path)
    probed(box, *points)
    with watched():
        box.call("work", 9)
        assert box.call("fault", 16) == 7
    return list(starts(box.kernel.guest))


@pytest.mark.parametrize("kind", ["plain", "breakpoints", "jumps"])
def test_it_counts_what_single_steps_see(path, kind):
    points = {
        "plain": [],
        "breakpoints": ["covered:several+0x8", "covered:spin+0x5", "covered:fault+0x5"],
        "jumps": ["covered:work+0x5", "covered:spin"],
    }[kind]
    box = Box()
    box.write("/sys/debug/kprobes-optimization", f"{int(kind == 'jumps')}\n")
    coverage = Bytes()
    with box.kernel.lock:
        coverage.follow(box.kernel)
    before: Counter[int] = Counter()
    places = scenario(
        box, path, points, lambda: nullcontext(before.update(coverage.counts()))
    )
    counts = coverage.counts() - before
    box.close()
    box = Box()
    box.write("/sys/debug/kprobes-optimization", f"{int(kind == 'jumps')}\n")
    seen: Counter[int] = Counter()
    assert scenario(box, path, points, lambda: stepping(box, seen)) == places
    box.close()
    assert any(counts[at] for at in places)
    assert not all(counts[at] for at in places)
    assert {at: counts[at] for at in places} == {at: seen[at] for at in places}


def test_a_run_that_ends_before_a_block_does_not_count_it(path, box, monkeypatch):
    """A turn may end before each block, and the hook for it has been called then."""
    monkeypatch.setattr(cpu, "RUN_BLOCKS", 7)
    coverage = Bytes()
    with box.kernel.lock:
        coverage.follow(box.kernel)
    box.insmod(path)
    box.kernel.guest.cpus.may_end = lambda _ip: True
    turns = box.kernel.guest.sched.turns
    assert box.call("spin", 1000) == 250_000 - 500
    assert box.kernel.guest.sched.turns - turns > 100
    report = coverage.report()
    lines = report.lines("covered.c")
    text = (path.parent / "covered.c").read_text().splitlines()
    (line,) = [n for n, row in enumerate(text, 1) if "sum += i & 1" in row]
    assert lines[line] == 1000 + 3  # work(4) calls spin(3) once


def test_loads_of_one_module_add_up(path, box):
    coverage = GuestCoverage()
    with box.kernel.lock:
        coverage.follow(box.kernel)
    for _ in range(3):
        box.insmod(path)
        box.rmmod("covered")
        box.settle()
    called = coverage.report().functions()
    assert called == {**called, "go": 3, "end": 3, "work": 3, "fault": 0}
    assert "init_module" not in called


def test_a_snapshot_keeps_what_was_reached(path):
    """Restoring loads and unloads modules without a word of the guest's."""
    with kpfs.Kernel() as k:
        k.insmod(path)
        taken = k.snapshot()
        k.cover()
        k.rmmod("covered")
        k.insmod(path)
        k.restore(taken)
        assert k.coverage().functions()["end"] == 1
        k.rmmod("covered")
        k.restore(taken)
        k.rmmod("covered")
        called = k.coverage().functions()
        assert called == {**called, "end": 3, "go": 1}
        with pytest.raises(ValueError, match="already"):
            k.cover()
    with kpfs.Kernel() as k, pytest.raises(ValueError, match=r"call cover\(\)"):
        k.coverage()
