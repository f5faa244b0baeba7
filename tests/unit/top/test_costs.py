# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs top: which probes cost the same."""

import pytest

from kpfs.top.costs import (
    BOOSTED,
    FTRACE,
    JUMP,
    STEPPED,
    Sort,
    cost_of,
    sort_of,
    sorts_of,
)
from kpfs.top.samples import Rate, TopProbe, cells


def probe(kind, boostable="-", type_="k", owner="kprobes/e"):
    return TopProbe("-", type_, "f+0x0", owner, kind, "-,-", boostable, 1, 0)


@pytest.mark.parametrize(
    ("kind", "boostable", "way"),
    [
        ("ftrace", "-", FTRACE),
        ("jump", "1", JUMP),
        ("breakpoint", "1", BOOSTED),
        ("breakpoint", "0", STEPPED),
        ("breakpoint", "-1", STEPPED),
    ],
)
def test_how_it_is_hit(kind, boostable, way):
    assert sort_of(probe(kind, boostable)) == Sort(way, "k", event=True)


def test_sort_of_a_jprobe():
    assert sort_of(probe("ftrace", type_="j", owner="m")) == Sort(FTRACE, "j", False)


@pytest.mark.parametrize("kind", ["disabled", "disarmed", "gone", "?", "breakpoint"])
def test_nobody_knows(kind):
    assert sort_of(probe(kind)) is None
    assert sorts_of([probe(kind)]) == set()
    assert cost_of(probe(kind), {}) is None


def test_what_is_shown():
    shown = probe("ftrace")
    costs = {Sort(FTRACE, "k", event=True): 0.0749}
    rate = Rate(shown, 0, 0, ())
    assert cells(rate, cost_of(shown, costs))[-1] == "≈0.07 us"
    assert cells(rate, cost_of(shown, {}))[-1] == ""
