# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs top: the kernels in which it measures what a hit costs."""

import pytest

from kpfs.top.costs import BOOSTED, FTRACE, JUMP, STEPPED, Sort, measure, prepared
from kpfs.top.samples import TAGS

WAYS = {FTRACE: "ftrace", JUMP: "jump", BOOSTED: "1", STEPPED: "-1"}


def sorts():
    for way in WAYS:
        for type_ in "krj":
            for event in (False, True):
                if type_ != "j" or not (event or way is JUMP):
                    yield Sort(way, type_, event)


@pytest.mark.parametrize("sort", list(sorts()), ids=str)
def test_it_is_hit_as_it_is_said(sort):
    box = prepared(sort.way, sort.type, event=sort.event)
    try:
        line = box.read("/kprobes/list")
        assert line.split()[1] == sort.type
        row = box.read("/machine/probes").splitlines()[1].split()
        kinds = [kind for tag, kind in TAGS.items() if tag in line]
        assert (kinds or [row[5]]) == [WAYS[sort.way]]
        assert ("/" in row[3]) == sort.event
        box.call(sort.way.loop, 7)
        row = box.read("/machine/probes").splitlines()[1].split()
        assert row[-2] == "7"
        if sort.event:
            assert box.read("/tracing/trace").count(" cost: ") == 7
    finally:
        box.close()


def test_a_single_step_costs_more_than_a_jump():
    jump, step = Sort(JUMP, "k", True), Sort(STEPPED, "k", True)
    costs = measure([jump, step])
    assert costs[step] > costs[jump] > 0
