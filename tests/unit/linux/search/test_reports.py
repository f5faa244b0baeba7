# SPDX-License-Identifier: GPL-2.0-or-later
"""Reports of the checks of modules, which a search groups by what they are about."""

from types import SimpleNamespace

from kpfs.base import abi
from kpfs.linux.search.places import ARCHES
from kpfs.linux.search.reports import RacePair, Reports, counted_words, pairs
from kpfs.linux.search.texts import CountedRow


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
    counted = [CountedRow(abi.FOUND_RACE, 5, 0x50, 1)]
    texts = SimpleNamespace(findings=lambda: rows, counted=lambda: counted)
    found = [*pairs(texts)]  # type: ignore[arg-type]
    assert found == [
        *(RacePair(1, 0x10), RacePair(2, 0), RacePair(0x20, 0), RacePair(4, 0)),
        RacePair(5, 0x50),
    ]


def test_findings_that_were_too_many_are_told_by_kind_and_place():
    rows = [
        CountedRow(abi.FOUND_RACE, 1, 2, 0),
        CountedRow(abi.FOUND_DOUBLE_FREE, 3, 0, 0),
        CountedRow(abi.FOUND_FAULT, 4, 5, 0),
    ]
    texts = SimpleNamespace(counted=lambda: rows, place=lambda at: f"f{at}+0x0 [m]")
    race, free = Reports(None, texts).counted()  # type: ignore[arg-type]
    assert (race.kind, race.races) == ("race", ["f1+0x0 [m]", "f2+0x0 [m]"])
    assert free.title == "memory: f3+0x0 [m]"
    counts = {("race", f"f{number} [m]"): number for number in range(1, 11)}
    (line, rest) = counted_words({**counts, ("lock", ""): 1}, 0)
    assert line.startswith("race: 55 more findings of one run are only counted: 10 at ")
    assert line.endswith(", 3 at f3 [m], 3 at 2 other places")
    assert rest.endswith("only counted: 1 at no place")
