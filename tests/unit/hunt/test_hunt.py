# SPDX-License-Identifier: GPL-2.0-or-later
"""The order of a search, over runs that are a table."""

import errno
import os
import signal
import threading
from collections.abc import Callable

import pytest

from kpfs.base.errors import SetupError
from kpfs.base.kinds import KINDS, MEMORY, RACE
from kpfs.base.signals import SignalledError, raised
from kpfs.commands.search import _summary_row, _Teller, summary
from kpfs.coverage.module_lines import ModuleLines
from kpfs.hunt import hunt as hunt_module
from kpfs.hunt.hunt import Hunt, SearchFinding, SearchLimits
from kpfs.hunt.runs import EndedRun
from kpfs.hunt.search import Search
from kpfs.hunt.task import SearchTask
from kpfs.linux.search.plan import Order, RunPlan
from kpfs.linux.search.reports import CheckReport, RacePair
from kpfs.linux.search.searched import Begin, RunOutcome
from kpfs.linux.search.seed import Seed

BASE = RunOutcome(0, "", [], "", "base", 100, 1000, accesses=8, calls=3)
NO_LINES = ModuleLines({})
WRONG = BASE._replace(status=3, output="lost: 1 of 2\n", digest="wrong")


class FakeRuns:
    """Runs whose outcome a function of the plan tells."""

    def __init__(self, outcome: Callable[[RunPlan], RunOutcome]) -> None:
        self.outcome = outcome
        self.plans: list[RunPlan] = []
        self._waiting: list[RunPlan] = []

    @property
    def running(self) -> int:
        return len(self._waiting)

    @property
    def has_room(self) -> bool:
        return not self._waiting

    def start(self, plan: RunPlan) -> None:
        self.plans.append(plan)
        self._waiting.append(plan)

    def wait(self, _seconds: float | None) -> EndedRun | None:
        plan = self._waiting.pop(0)
        return EndedRun(plan, self.outcome(plan), 0.01)

    def stop(self) -> None:
        self._waiting.clear()


def hunted(
    outcome: Callable[[RunPlan], RunOutcome], *kinds: str, runs: int = 60, jobs: int = 2
) -> tuple[Hunt, FakeRuns, list[SearchFinding]]:
    """Search with so many runs at most; return what was found, too."""
    fake, found = FakeRuns(outcome), list[SearchFinding]()
    limits = SearchLimits(frozenset(kinds or KINDS), 60.0, runs, jobs)
    hunt = Hunt(fake, limits, NO_LINES, lambda finding, _runs: found.append(finding))  # type: ignore[arg-type]
    hunt.begin()
    hunt.run()
    return hunt, fake, found


def test_a_command_that_fails_by_itself_is_refused():
    with pytest.raises(SetupError, match=r"fails by itself \(status 3\): lost: 1 of 2"):
        hunted(lambda _plan: WRONG)


def test_a_command_that_does_not_do_the_same_twice_is_refused():
    digests = iter("abcdef")
    with pytest.raises(SetupError, match="the same twice: 100 blocks of code"):
        hunted(lambda _plan: BASE._replace(digest=next(digests)))


def test_a_name_of_text_that_is_not_loaded_is_refused():
    with pytest.raises(SetupError, match="--of none: CMD loads no module or BPF"):
        hunted(lambda _plan: BASE._replace(missing=["none"]))


def test_nothing_is_found_where_nothing_is_wrong():
    hunt, fake, found = hunted(lambda _plan: BASE)
    assert not found
    assert len(fake.plans) == 60
    assert hunt.tried().whole
    assert {plan.way for plan in fake.plans} == {
        *("base", "race", "fault", "two faults", "walk", "place", "point", "timer")
    }
    assert sorted(plan.faults for plan in fake.plans if plan.faults) == [
        *((1,), (1, 2), (1, 3), (2,), (2, 3), (3,))
    ]


def test_both_sides_of_a_pair_that_races_wait_for_each_other():
    raced = BASE._replace(pairs=[RacePair(0x10, 0x20)])
    _, fake, _ = hunted(lambda plan: raced if plan.each_ns else BASE, "race")
    pairs = [plan.orders[0] for plan in fake.plans if plan.way == "pair"]
    assert {(o.number, o.at, o.until, bool(o.then)) for o in pairs} == {
        (number, *side, then)
        for number in (1, 2, 3)
        for side in ((0x10, 0x20), (0x20, 0x10))
        for then in (True, False)
    }


def test_two_functions_wait_that_use_the_same_bytes():
    functions = [(0, 10, "a [m]"), (10, 20, "b [m]"), (20, 30, "c [m]")]
    known = BASE._replace(functions=functions, reached=[1, 2, 11, 21], shared=[2, 11])
    _, fake, _ = hunted(lambda _plan: known, "schedule")
    plans = [plan for plan in fake.plans if plan.way == "function"]
    places = [{order.at for order in plan.orders} for plan in plans]
    assert places == [{1, 2, 11}, {1, 2, 11}]
    slow = [max(plan.orders, key=lambda order: order.ns).at for plan in plans]
    assert slow == [1, 11]


def test_of_two_tasks_at_one_place_each_is_the_slow_one_in_a_run():
    known = BASE._replace(shared=[2, 11])

    def outcome(plan: RunPlan) -> RunOutcome:
        slow = [order.number for order in plan.orders if order.ns == 8_000_000]
        other = [order.ns for order in plan.orders if order.number == 1]
        is_wrong = plan.orders and plan.orders[0].at == 11 and 2 in slow
        return WRONG if is_wrong and other == [2_000_000] else known

    _, fake, found = hunted(outcome, "schedule", runs=20)
    assert [each.key[1] for each in found] == ["status"]
    waits = [
        (plan.orders[0].at, [order.ns // 1_000_000 for order in plan.orders])
        for plan in fake.plans
        if plan.way == "place" and len(plan.orders) == 3
    ]
    assert waits[:8] == [
        *((2, [8, 8, 8]), (11, [8, 8, 8])),
        *((2, [8, 2, 2]), (11, [8, 2, 2])),
        *((2, [2, 8, 2]), (11, [2, 8, 2])),
        *((2, [2, 2, 8]), (11, [2, 2, 8])),
    ]


def test_places_that_race_or_take_locks_in_a_circle_come_before_others():
    raced = BASE._replace(pairs=[RacePair(0x10, 0x20), RacePair(0x30, 0)])
    known = BASE._replace(shared=[2, 0x20])
    _, fake, _ = hunted(
        lambda plan: raced if plan.each_ns else known, "race", "schedule"
    )
    places = [plan.orders[0].at for plan in fake.plans[:26] if plan.way == "place"]
    assert places[:16] == [0x10, 0x20, 0x30, 2] * 4


def test_a_function_is_reached_wherever_its_module_was_loaded():
    functions = [(0, 10, "a [m]"), (10, 20, "b [m]"), (100, 110, "a [m]")]
    known = BASE._replace(functions=functions, reached=[105])
    hunt, _, _ = hunted(lambda _plan: known, "schedule")
    assert (hunt.tried().missed, hunt.tried().functions) == (["b [m]"], 2)


def test_tasks_come_later_to_what_an_interrupt_does():
    functions = [(0, 10, "release [m]"), (10, 20, "tick [m]")]
    known = BASE._replace(functions=functions, reached=[1, 2, 11, 12], interrupts=[12])
    _, fake, _ = hunted(lambda _plan: known, "schedule")
    plans = [plan.orders for plan in fake.plans if plan.way == "phase"]
    waits = [{order.at: order.ns / 1e6 for order in orders} for orders in plans]
    assert [each.get(1, 0) for each in waits] == [0, 1, 2, 3]
    assert {each[11] for each in waits} == {8}
    _, fake, _ = hunted(lambda _plan: known._replace(interrupts=[]), "schedule")
    assert not [plan for plan in fake.plans if plan.way == "phase"]


def test_pairs_that_other_runs_have_shown_are_tried_as_well():
    raced = BASE._replace(pairs=[RacePair(0x10, 0x20)])
    known = BASE._replace(shared=[2])
    _, fake, _ = hunted(
        lambda plan: raced if plan.way == "place" else known, "race", jobs=2
    )
    assert sum(plan.way == "pair" for plan in fake.plans) == 12


def test_a_finding_is_shown_by_as_few_waits_as_possible():
    def outcome(plan: RunPlan) -> RunOutcome:
        numbers = {order.number for order in plan.orders}
        return WRONG if {3, 5} <= numbers else BASE

    hunt, _, found = hunted(outcome, "schedule", runs=200)
    assert [each.key for each in found] == [("schedule", "status", "3")]
    assert [order.number for order in found[0].plan.orders] == [3, 5]
    assert found[0].title == "wrong result: status 3, lost: 1 of 2"
    assert hunt.times[found[0].key] > 1


def test_making_findings_smaller_takes_a_share_of_the_time(monkeypatch):
    monkeypatch.setattr(hunt_module, "SHRINK", 0.0)

    def outcome(plan: RunPlan) -> RunOutcome:
        return WRONG if {3, 5} <= {order.number for order in plan.orders} else BASE

    _, fake, found = hunted(outcome, "schedule", runs=200)
    assert [len(each.plan.orders) > 2 for each in found] == [True]
    assert len(fake.plans) == 200


def test_a_run_in_which_each_access_waits_becomes_single_waits():
    def outcome(plan: RunPlan) -> RunOutcome:
        numbers = {order.number for order in plan.orders}
        return WRONG if plan.each_ns or 4 in numbers else BASE

    _, _, found = hunted(outcome, "race", "schedule")
    assert [order.number for order in found[0].plan.orders] == [4]
    assert not found[0].plan.each_ns


def test_a_call_that_fails_may_change_the_status_but_not_harm_the_kernel():
    oops = "BUG: kernel NULL pointer dereference, address: 0000000000000010"

    def outcome(plan: RunPlan) -> RunOutcome:
        if plan.faults == (2,):
            return WRONG._replace(complaints=[oops], failed=["kmalloc() fails"])
        return WRONG if plan.faults else BASE

    _, _, found = hunted(outcome, "fault")
    assert [each.title for each in found] == [f"the kernel complains: {oops}"]
    assert found[0].plan.faults == (2,)
    assert found[0].lines == ["kmalloc() fails"]


def test_two_calls_fail_where_the_command_goes_on_after_the_first():
    def outcome(plan: RunPlan) -> RunOutcome:
        if plan.faults in [(1,), (1, 3)]:
            bad = plan.faults == (1, 3)
            return BASE._replace(complaints=["BUG: two"] if bad else [])
        return WRONG if plan.faults else BASE

    hunt, fake, found = hunted(outcome, "fault")
    plans = [plan.faults for plan in fake.plans if len(plan.faults) == 2]
    assert plans == [(1, 2), (1, 3), (2, 3)]
    assert [each.plan.faults for each in found] == [(1, 3)]
    assert hunt.tried().whole


def test_a_hang_is_found_once_whatever_its_numbers():
    def outcome(plan: RunPlan) -> RunOutcome:
        why = f"CMD still runs after 30 s\n  test (pid {len(plan.orders)}) in x"
        return BASE._replace(status=-1, why=why) if plan.orders else BASE

    hunt, _, found = hunted(outcome, "schedule")
    assert len(found) == 1
    assert found[0].lines == ["  test (pid 1) in x"]
    assert hunt.times[found[0].key] > 5


def test_reports_of_kinds_that_are_not_looked_for_are_left_out():
    report = CheckReport("memory", "use after free", ["who"], ("memory", "x"))
    reported = BASE._replace(reports=[report])
    _, _, found = hunted(lambda _plan: reported, "schedule")
    assert not found
    _, _, found = hunted(lambda _plan: reported, "memory")
    assert [each.title for each in found] == ["use after free"]


def test_a_race_in_code_without_lines_is_counted_but_not_told():
    place = "io+0x9 [m]"
    report = CheckReport("race", "data race", [], ("race", place), (place, place))
    raced = BASE._replace(reports=[report])
    hunt, _, found = hunted(lambda _plan: raced, "race")
    assert not found
    assert hunt.tried().unknown == 1


def test_shards_divide_what_is_tried():
    whole = list[tuple[int, ...]]()
    for part in (1, 2):
        fake = FakeRuns(lambda _plan: BASE)
        limits = SearchLimits(frozenset({"fault"}), 60.0, 0, 1, (part, 2))
        hunt = Hunt(fake, limits, NO_LINES, lambda _finding, _runs: None)  # type: ignore[arg-type]
        hunt.begin()
        hunt.run()
        whole += [plan.faults for plan in fake.plans if plan.faults]
    assert sorted(whole) == [(1,), (1, 2), (1, 3), (2,), (2, 3), (3,)]


def test_a_plan_survives_json():
    import json

    plan = RunPlan("walk", ("memory",), 5, (Order(1, 2, 3, 4, True),), (7,))
    assert RunPlan.unpacked(json.loads(json.dumps(plan.packed()))) == plan


def test_functions_that_no_run_has_reached_are_named():
    functions = [(0, 10, "a [m]"), (10, 20, "b [m]"), (20, 30, "c [m]")]

    def outcome(plan: RunPlan) -> RunOutcome:
        return BASE._replace(
            reached=[15] if plan.faults else [29],
            functions=functions if plan.way == "base" else (),
        )

    hunt, _, _ = hunted(outcome)
    assert hunt.tried().missed == ["a [m]"]
    assert hunt.tried().functions == 3


def test_nothing_was_looked_for_before_the_unchanged_run_has_ended():
    limits = SearchLimits(frozenset(KINDS), 60.0, 60)
    fake = FakeRuns(lambda _plan: BASE)
    hunt = Hunt(fake, limits, NO_LINES, lambda _finding, _runs: None)  # type: ignore[arg-type]
    before = "the search ended before"
    assert hunt.tried().left_out == dict.fromkeys(KINDS, before)


def test_kinds_that_were_not_looked_for_are_named():
    hunt, _, _ = hunted(lambda _plan: BASE._replace(calls=0))
    assert hunt.tried().left_out == {"fault": "no call can fail"}
    hunt, _, _ = hunted(lambda _plan: BASE, runs=2)
    before = "the search ended before"
    assert hunt.tried().left_out == {"fault": before, "schedule": before}
    unfit = {"ibt": "this kernel has none"}
    limits = SearchLimits(frozenset(KINDS), 60.0, 60)
    fake = FakeRuns(lambda _plan: BASE)
    hunt = Hunt(fake, limits, NO_LINES, lambda _finding, _runs: None, left_out=unfit)  # type: ignore[arg-type]
    hunt.begin()
    hunt.run()
    assert {plan.checks for plan in fake.plans} == {("memory", "lock")}
    tried = hunt.tried()
    assert tried.left_out == unfit
    assert "ibt: not looked for: this kernel has none" in summary(
        tried, frozenset(KINDS)
    )


def test_the_summary_tells_of_findings_that_were_too_many():
    counted = [CheckReport("lock", f"lock: f+{at:#x} [m]", (), ("",)) for at in (1, 2)]
    outcome = BASE._replace(lost=7, counted=counted, untracked=9)
    hunt, _, _ = hunted(lambda _plan: outcome, "lock")
    lines = summary(hunt.tried(), frozenset({"lock"}))
    more = "more findings of one run are"
    assert lines[-3:] == [
        f"lock: 2 {more} only counted: 2 at f [m]",
        f"7 {more} not told",
        "9 objects of one run were too many to be looked at",
    ]
    rows = _summary_row(hunt.tried())["counted"]
    assert rows == [{"kind": "lock", "place": "f [m]", "number": 2}]


def test_the_summary_tells_what_the_kernel_says_of_the_unchanged_run():
    hunt, _, _ = hunted(lambda _plan: BASE._replace(complaints=["WARNING: at x"]))
    lines = summary(hunt.tried(), frozenset(KINDS))
    assert "the kernel complains in the unchanged run, too: WARNING: at x" in lines


def test_the_summary_tells_of_files_that_have_changed(tmp_path):
    file = tmp_path / "file"
    file.touch()
    hunt, _, _ = hunted(lambda _plan: BASE._replace(reads=[str(file)]))
    os.utime(file, (0, 0))
    assert not hunt.tried().changed
    file.write_text("new")
    (line,) = [s for s in summary(hunt.tried(), frozenset(KINDS)) if "changed" in s]
    assert line.startswith(f"{file} has changed meanwhile")


def test_a_finding_whose_seed_cannot_be_kept_is_told(monkeypatch, capsys):
    def full(_seed):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("kpfs.linux.search.seed.keep", full)
    plan = RunPlan("base", (), 0)
    finding = SearchFinding(RACE, "data race: here", ("a line",), ("x",), plan, BASE)
    seed = Seed(plan, "", Begin.MARK, "6.12", "", "", ("true",), "/", {}, {})
    search = object.__new__(Search)
    search.seeds, search._told_of = {}, {}
    search._told = _Teller(SearchTask("6.12", ("true",)), quiet=False).tell
    monkeypatch.setattr(search, "_seed_of_run", lambda *_: seed)
    with pytest.raises(SetupError, match="a seed cannot be kept: No space left"):
        search._tell(finding, 5)
    told = ["data race: here", "    a line", "    nothing is done to it, after 5 runs"]
    assert capsys.readouterr().out.splitlines() == told


def test_a_seed_tells_of_all_that_its_run_has_shown(monkeypatch):
    kept = list[Seed]()

    def keep(seed):
        kept.append(seed)
        return "sabcd"

    monkeypatch.setattr("kpfs.linux.search.seed.keep", keep)
    plan = RunPlan("base", (), 0)
    race = SearchFinding(RACE, "data race: here", ("a line",), ("x",), plan, BASE)
    wrong = race._replace(title="wrong result: status 3", lines=(), key=("y",))
    search = object.__new__(Search)
    search.seeds, search._told_of, search._told = {}, {}, lambda *_: None
    seed = Seed(plan, "", Begin.MARK, "6.12", "", "", ("true",), "/", {}, {})
    monkeypatch.setattr(search, "_seed_of_run", lambda *_: seed)
    search._tell(race, 1)
    search._tell(wrong, 1)
    assert kept[1].told == ("data race: here\n    a line", "wrong result: status 3")
    assert Seed.parsed(kept[1].text()) == kept[1]
    assert kept[0].whole_name == kept[1].whole_name


def reports_of(number):
    """Return an outcome with a report for each of so many places in 20 functions."""
    titles = [
        f"memory: read of 1 byte out of bounds at f{n % 20}+{n:#x} [m]"
        for n in range(number)
    ]
    return BASE._replace(
        reports=[CheckReport(MEMORY, title, (), (title,)) for title in titles]
    )


def test_many_findings_of_a_kind_are_counted_by_their_places():
    many = reports_of(2_000)
    hunt, _, found = hunted(
        lambda plan: many if plan.faults else BASE, MEMORY, "fault", runs=12
    )
    assert len(found) == 100
    tried = hunt.tried()
    assert len(tried.found) + sum(tried.more.values()) == 2_000
    assert len(tried.more) == 20
    line = next(
        line for line in summary(tried, frozenset(KINDS)) if line.startswith(MEMORY)
    )
    assert line.startswith("memory: 2000 found, of which these are only counted: ")
    assert line.endswith("at f7 [m], 1140 at 12 other places")
    assert not any(each.outcome.reports for each in tried.found)
    row = _summary_row(tried)
    assert row["found"] == {MEMORY: 2_000}
    assert sum(each["number"] for each in row["more"]) == 1_900


def test_one_place_does_not_hide_the_others():
    titles = [f"memory: double free at a+{n:#x} [m]" for n in range(300)]
    titles.append("memory: double free at b+0x1 [m]")
    all_of = [CheckReport(MEMORY, title, (), (title,)) for title in titles]
    hunt, _, found = hunted(lambda _plan: BASE._replace(reports=all_of), MEMORY)
    assert len(found) == 21
    assert found[-1].place == "b [m]"
    assert hunt.tried().more == {(MEMORY, "a [m]"): 280}


def test_the_summary_tells_how_many_calls_have_failed():
    hunt, _, _ = hunted(lambda _plan: BASE, "fault", runs=4, jobs=1)
    assert "fault: nothing found, in 2 of 3 calls" in summary(
        hunt.tried(), frozenset({"fault"})
    )
    hunt, _, _ = hunted(lambda _plan: BASE, "fault", jobs=1)
    assert "fault: nothing found" in summary(hunt.tried(), frozenset({"fault"}))


def test_a_signal_waits_until_a_finding_is_kept_and_told(monkeypatch, capsys):
    def keep(_seed):
        # to this thread, which has it wait; others of pytest's would take it at once
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        return "sabcd"

    monkeypatch.setattr("kpfs.linux.search.seed.keep", keep)
    plan = RunPlan("base", (), 0)
    race = SearchFinding(RACE, "data race: here", (), ("x",), plan, BASE)
    search = object.__new__(Search)
    search.seeds, search._told_of = {}, {}
    search._told = _Teller(SearchTask("6.12", ("true",)), quiet=False).tell
    seed = Seed(plan, "", Begin.MARK, "6.12", "", "", ("true",), "/", {}, {})
    monkeypatch.setattr(search, "_seed_of_run", lambda *_: seed)
    with raised(), pytest.raises(SignalledError):
        search._tell(race, 1)
    assert "seed sabcd: " in capsys.readouterr().out
