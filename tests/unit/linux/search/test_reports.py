# SPDX-License-Identifier: GPL-2.0-or-later
"""Reports of the checks of modules, which a search groups by what they are about."""

from types import SimpleNamespace

from kpfs.base import abi
from kpfs.linux.search.places import ARCHES
from kpfs.linux.search.reports import RacePair, Reports, pairs


class Circles:
    """Orders of locks: the places where each is taken."""

    def __init__(self, *orders):
        self.orders = orders

    def circle(self, _row):
        return [
            SimpleNamespace(pid=1, comm=b"a\0", stack=[], held=0x10, wanted=0x20,
                            held_at=held, wanted_at=wanted)
            for held, wanted in self.orders
        ]  # fmt: skip


def report(kind, locks=None, **values):
    words = {
        "pid": 1,
        "comm": b"test\0",
        "cpu": 0,
        "count": 1,
        "stack": [],
        "a": 2,
    }
    row = SimpleNamespace(kind=kind, block=5, other=0, object=0, **words, **values)
    texts = SimpleNamespace(
        findings=lambda: [row],
        place=lambda at: f"f+{at:#x} [m]",
        function_name=lambda _number: "msleep",
        arch=ARCHES["x86"],
    )
    (made,) = Reports(None, texts, locks=locks).of_findings()  # type: ignore[arg-type]
    return made


def test_a_circle_of_locks_is_one_wherever_it_is_closed():
    one, other, third = (
        report(abi.FOUND_LOCK_ORDER, Circles(*orders), at=orders[0][1])
        for orders in [((1, 2), (3, 4)), ((3, 4), (1, 2)), ((3, 4), (1, 5))]
    )
    assert one.key == other.key != third.key
    assert one.title == "lock: 2 locks are taken in a circle at f+0x2 [m]"


def test_other_reports_are_known_by_kind_and_place():
    made = report(abi.FOUND_DOUBLE_FREE, at=0x11, b=0, c=0)
    assert made.key == ("memory: double free at f+0x10 [m]",)
    assert made.text == f"{made.title}\n    by task 1 (test) on CPU 0"
    made = report(abi.FOUND_SLEEP, at=0x20, b=1, c=0)
    assert made.title == "lock: msleep may sleep at f+0x20 [m], with preemption off"
    assert made.key == ("lock", "sleep", "f+0x20 [m]")


def test_races_and_circles_of_locks_tell_which_places_matter():
    rows = [
        SimpleNamespace(kind=kind, at=number, other=0x10 * number)
        for number, kind in enumerate(
            (abi.FOUND_RACE, abi.FOUND_LOCK_ORDER, abi.FOUND_SLEEP, abi.FOUND_CHANGED),
            1,
        )
    ]
    texts = SimpleNamespace(findings=lambda: rows)
    found = [*pairs(texts)]  # type: ignore[arg-type]
    assert found == [
        *(RacePair(1, 0x10), RacePair(2, 0), RacePair(0x20, 0), RacePair(4, 0))
    ]
