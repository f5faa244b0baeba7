# SPDX-License-Identifier: GPL-2.0-or-later
"""Probes as the files tell them, and what grows between two looks."""

import pytest

from kpfs.top.samples import Sampler, TopProbe, is_guest_kernel, read, sparkline

LIST = """\
ffffffff81009470  r  vfs_write+0x0    [DISABLED][FTRACE]
ffffffff81009385  k  vfs_read+0x5    [OPTIMIZED]
ffffffff81009380  k  vfs_read+0x0    [FTRACE]
ffffffffc0001007  k  init+0x7  m  
ffffffffc0001009  k  exit+0x7  m [GONE]
"""  # noqa: W291 the kernel writes it so
PROBES = """\
address           type  place          owner      state  boostable  slot  detour  hits  nmissed
ffffffff81009470  r     vfs_write+0x0  kprobes/r  -,-    -          -     -       6     0
ffffffff81009385  k     vfs_read+0x5   kprobes/i  -,-    1          ffff  ffff    32    0
ffffffff81009380  k     vfs_read+0x0   kprobes/e  -,-    -          -     -       31    2
ffffffffc0001007  k     init+0x7:m     m          -,-    1          ffff  -       1     0
ffffffffc0001009  k     exit+0x7:m     m          -,-    1          ffff  -       1     0
"""  # noqa: E501 so does machine/probes
PROFILE = """\
  e                                                         31               2
  r                                                          6               0
"""
EVENTS = "p:kprobes/e vfs_read a=%di\nr16:kprobes/r vfs_write+0\n"


@pytest.fixture
def tree(tmp_path):
    for name, text in {
        "kprobes/enabled": "1\n",
        "kprobes/list": LIST,
        "machine/probes": PROBES,
        "tracing/kprobe_profile": PROFILE,
        "tracing/kprobe_events": EVENTS.replace("+0", "+0x0"),
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_what_is_read(tree):
    probes = read(tree)
    assert [probe.kind for probe in probes] == [
        "disabled",
        "jump",
        "ftrace",
        "breakpoint",
        "gone",
    ]
    address = "ffffffff81009380"
    e = TopProbe(address, "k", "vfs_read+0x0", "kprobes/e", "ftrace", "-,-", "-", 31, 2)
    assert probes[2] == e


@pytest.mark.parametrize(
    ("release", "guest_kernel"), [("6.1.0-kpfs", True), ("6.1.0-56-cloud-amd64", False)]
)
def test_is_guest_kernel(tree, release, guest_kernel):
    (tree / "sys/kernel").mkdir(parents=True)
    (tree / "sys/kernel/osrelease").write_text(f"{release}\n")
    assert is_guest_kernel(tree) == guest_kernel


def test_all_disarmed(tree):
    (tree / "kprobes/enabled").write_text("0\n")
    assert {probe.kind for probe in read(tree)} == {"disabled", "disarmed", "gone"}


def test_kernel_without_machine_probes(tree):
    (tree / "machine/probes").unlink()
    e, r = read(tree)
    assert e == TopProbe(
        "-", "k", "vfs_read+0x0", "kprobes/e", "ftrace", "-", "-", 31, 2
    )
    assert r == TopProbe(
        "-", "r", "vfs_write+0x0", "kprobes/r", "disabled", "-", "-", 6, 0
    )


def probe(hits, missed=0, place="f+0x0"):
    return TopProbe("-", "k", place, "kprobes/f", "jump", "-", "1", hits, missed)


def test_what_grows():
    sampler = Sampler()
    (first,) = sampler.add([probe(10)], now=100.0)
    assert (first.hits, first.history) == (0, ())
    new, old = sampler.add([probe(0, place="g+0x0"), probe(40, 1)], now=102.0)
    assert (old.hits, old.missed, old.history) == (15, 0.5, (15,))
    assert (new.hits, new.history) == (0, ())
    (after,) = sampler.add([probe(8)], now=104.0)  # the kernel was started anew
    assert after.hits == 4


def test_sparkline():
    assert sparkline([]) == ""
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([0, 35, 70]) == "▁▅█"
