# SPDX-License-Identifier: GPL-2.0-or-later
"""The order of a search: which runs are made, and what they have found.

First a run without any change, twice, as nothing can be said of a command that does not
do the same again. Then one in which each access waits; runs that hold one side of each
pair that has raced, until the other has passed; runs in each of which a call fails; and
then schedules by chance, until the time is over. A finding is made as small as it can
be: waits are left out one by one, as long as the rest still shows it.
"""

from __future__ import annotations

import os
import re
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count, islice, permutations
from random import Random
from types import MappingProxyType
from typing import NamedTuple

from kpfs.base.errors import SetupError
from kpfs.base.kinds import CHECKS, FAULT, RACE, SCHEDULE
from kpfs.coverage.module_lines import ModuleLines
from kpfs.coverage.told_races import ToldRaces
from kpfs.hunt.runs import EndedRun, Runs
from kpfs.linux.search.plan import Order, RunPlan
from kpfs.linux.search.reports import CheckReport, function_of
from kpfs.linux.search.searched import RunOutcome
from kpfs.linux.search.seed import changed_since

# ns. A task that comes for the first time may have to wait for pages of its program,
# and what reads them for the next tick of the processor that waits: 4 ms.
_LONG_NS = 8_000_000
# by which tasks come later to what an interrupt does, as that comes with a tick
_PHASES = 0, 1_000_000, 2_000_000, 3_000_000
_EACH_NS, _ALL_NS = 100_000, 400_000_000  # at least for each access; for all of them
_SHORTEST_NS, _DOUBLED = 16_000, 9  # a wait by chance is up to so often twice as long
_SHARE, _TIMERS = 4, 8  # one access waits in so many, and one timer comes
_MOST_ORDERS = 512  # waits in one run
_MOST_FUNCTIONS = 12  # pairs of functions of which both wait
_AGAIN = 3  # times that a place is tried which two tasks reach
_GOLDEN, _MIXED = 0x9E3779B97F4A7C15, 24  # mix bits of numbers
_TRIES = 60  # runs to make a finding smaller, and
SMALLER = "smaller"
# ways of runs whose result counts
_SCHEDULES = "pair", "phase", "function", "place", "walk", "point", "timer"
SHRINK = 0.25  # share of all the time, for all findings together
_MOST_FAULTS = 400
_TWO_FAULTS = 0.3  # share of the time left, for runs in which two calls fail
# findings that are made smaller, told and kept; the others are counted by their places
_MOST_OF_PLACE, _MOST_OF_KIND = 20, 100
_CHANGING = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{8,}\b|\d+")


class SearchFinding(NamedTuple):
    """Something wrong, and the smallest plan that is known to show it."""

    kind: str
    title: str
    lines: Sequence[str]
    key: tuple[str, ...]  # the same for all that are one finding
    plan: RunPlan
    outcome: RunOutcome

    @property
    def place(self) -> str:
        """The function that the title names first, "" if it names none."""
        return function_of(self.title)


class SearchLimits(NamedTuple):
    """How much is searched."""

    kinds: frozenset[str]
    seconds: float
    runs: int = 0  # 0: as many as the time allows
    jobs: int = 1
    shard: tuple[int, int] = (1, 1)


class Tried(NamedTuple):
    """The record of a search."""

    base: RunOutcome
    runs: dict[str, int]  # by the way in which they were chosen
    found: list[SearchFinding]
    times: dict[tuple[str, ...], int]  # how often each was found
    more: Mapping[tuple[str, str], int]  # that are not in found, by kind and place
    seconds: float
    whole: bool  # nothing that is not by chance is left to do
    unknown: int  # pairs that race in code without debug information
    missed: Sequence[str]  # functions of the text that no run has reached
    functions: int  # number of all of them
    left_out: Mapping[str, str]  # why, by the kinds that were not looked for
    # findings of the run with most of those that were too many to be kept, by kind and
    # function, and the number of those that were too many even to be counted
    counted: Mapping[tuple[str, str], int] = MappingProxyType({})
    lost: int = 0
    untracked: int = 0  # objects of one run that were too many to be looked at
    changed: Sequence[str] = ()  # files of the command that others have changed


class Hunt:
    """One search.  Its methods raise InRun in the processes of runs."""

    def __init__(
        self,
        runs: Runs,
        limits: SearchLimits,
        lines: ModuleLines,
        tell: Callable[[SearchFinding, int], None],
        progress: Callable[[int, float], None] = lambda _runs, _share: None,
        left_out: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """tell: called with each new finding and the number of runs so far.

        left_out: why this kernel is unfit for some kinds.
        """
        self._runs, self._limits, self._tell = runs, limits, tell
        self._lines, self._races_told = lines, ToldRaces(lines)
        self._progress, self._unfit = progress, left_out
        self._checks = tuple(
            each for each in CHECKS if each in limits.kinds and each not in left_out
        )
        self._began, self._began_at = time.monotonic(), time.time()
        self._shrunk = 0.0  # s that went into making findings smaller
        self._others: list[EndedRun] = []  # ended while another one was waited for
        self.made: dict[str, int] = {}
        self.found: dict[tuple[str, ...], SearchFinding] = {}
        self.times: dict[tuple[str, ...], int] = {}
        # numbers of what found has, by kind, and by kind and place
        self._kept = Counter[str | tuple[str, str]]()
        self.more: dict[tuple[str, str], int] = {}  # counted alone, by kind and place
        self._sides: dict[tuple[int, int], None] = {}  # pairs that have raced
        # instructions that race, or take locks in a circle
        self._suspected: dict[int, None] = {}
        self._made_pairs = set[tuple[tuple[int, int], int, int]]()
        self._counted, self._lost = Counter[tuple[str, str]](), 0
        self._untracked = 0
        self._after: dict[tuple[str, ...], int] = {}  # the runs before each was found
        self.base = RunOutcome(-1, "", [], "", "", 0, 0)
        self.whole, self._two_left = False, False
        self._reached: set[int] = set()
        self._interrupts: set[int] = set()  # instructions that interrupts have reached
        self._functions: dict[tuple[int, int], str] = {}

    # ---- runs
    def _plan(
        self,
        way: str,
        each_ns: int = 0,
        orders: tuple[Order, ...] = (),
        faults: tuple[int, ...] = (),
    ) -> RunPlan:
        return RunPlan(way, self._checks, each_ns, orders, faults)

    def _left(self) -> float:
        return self._limits.seconds - (time.monotonic() - self._began)

    @property
    def count(self) -> int:
        """Return the number of runs, without those that make findings smaller."""
        return sum(self.made.values()) - self.made.get(SMALLER, 0)

    def _may_start(self) -> bool:
        most = self._limits.runs
        return self._left() > 0 and (not most or self.count < most)

    def _start(self, plan: RunPlan, way: str = "") -> None:
        way = way or plan.way
        self.made[way] = self.made.get(way, 0) + 1
        self._runs.start(plan)

    def _one(self, plan: RunPlan, way: str = "") -> RunOutcome:
        """Make one run, and return its outcome; others may end meanwhile.

        way: in which it is counted, "": the plan's.
        """
        self._start(plan, way)
        while True:
            done = self._runs.wait(None)
            if done is not None and done.plan is plan:
                return done.outcome
            if done is not None:
                self._others.append(done)

    def _each(self, plans: Iterable[RunPlan]) -> Iterator[EndedRun]:
        """Make runs, several at once, and yield them as they end."""
        waiting = iter(plans)
        while True:
            while self._others:
                yield self._others.pop(0)
            while self._runs.has_room and self._may_start():
                plan = next(waiting, None)
                if plan is None:
                    break
                self._start(plan)
            if not self._runs.running:
                return
            done = self._runs.wait(max(self._left(), 0.0))
            self._show()
            if done is not None:
                yield done
            elif self._left() <= 0:
                self._runs.stop()

    def _show(self) -> None:
        spent = time.monotonic() - self._began
        shares = [spent / self._limits.seconds]
        if self._limits.runs:
            shares.append(self.count / self._limits.runs)
        self._progress(self.count, min(max(shares), 1.0))

    # ---- the order
    def begin(self) -> RunOutcome:
        """Make the run without any change, and return its outcome."""
        self._began = time.monotonic()
        self.base = self._one(self._plan("base"))
        return self.base

    def run(self) -> None:
        """Search.  Raises SetupError for a command with which it cannot be done."""
        base = self.base
        self._check_base(base)
        self._judge(self._plan("base"), base)
        kinds = self._limits.kinds
        if {RACE, SCHEDULE} & kinds:
            self._races()
        if FAULT in kinds:
            self._faults()
        self.whole = self._may_start() and not self._two_left
        if SCHEDULE in kinds and base.accesses:
            for done in self._each(self._by_chance(base.accesses)):
                self._judge(done.plan, done.outcome)

    def tried(self) -> Tried:
        """Return what was done so far."""
        return Tried(
            base=self.base,
            runs=self.made,
            found=list(self.found.values()),
            times=self.times,
            more=self.more,
            seconds=time.monotonic() - self._began,
            whole=self.whole,
            unknown=len(self._races_told.unknown),
            missed=self._missed(),
            functions=len(self._names()),
            left_out=self._left_out(),
            counted=self._counted,
            lost=self._lost,
            untracked=self._untracked,
            changed=changed_since(self.base.reads, self._began_at),
        )

    def _left_out(self) -> dict[str, str]:
        """Return why a kind was not looked for, of those that were asked for."""
        reasons = dict(self._unfit)
        ways = {FAULT: ["fault"], RACE: ["race"], SCHEDULE: _SCHEDULES}
        for kind, some in ways.items():
            if not self.made.keys() & {*some}:
                reasons[kind] = "the search ended before"
        if not self.base.ns:  # its run is not over
            reasons = dict.fromkeys(self._limits.kinds, "the search ended before")
        else:
            if not self.base.calls:
                reasons[FAULT] = "no call can fail"
            if not self.base.accesses:
                reasons[RACE] = reasons[SCHEDULE] = "nothing is accessed"
        found = {each.kind for each in self.found.values()}
        kinds = self._limits.kinds - found
        return {kind: why for kind, why in reasons.items() if kind in kinds}

    def _missed(self) -> list[str]:
        """Return the functions that no run has reached."""
        reached = sorted(self._reached)
        met = {
            name
            for (begin, end), name in self._functions.items()
            if bisect_left(reached, begin) != bisect_left(reached, end)
        }
        # a module that is loaded again has its functions elsewhere
        return [name for name in self._names() if name not in met]

    def _names(self) -> dict[str, None]:
        return dict.fromkeys(self._functions.values())

    def _check_base(self, base: RunOutcome) -> None:
        if base.status:
            last = base.output.strip().splitlines()[-1:] or [""]
            why = base.why.splitlines()[0] if base.why else f"status {base.status}"
            said = f": {last[0]}" if last[0] else ""
            raise SetupError(
                f"CMD fails by itself ({why}){said}; a search wants a command that "
                "ends with status 0"
            )
        if base.missing:
            raise SetupError(
                f"--of {base.missing[0]}: CMD loads no module or BPF program of that "
                "name, and the kernel has no such function"
            )
        again = self._one(self._plan("base"))
        if again.digest != base.digest:
            changed = changed_since({*base.reads, *again.reads}, self._began_at)
            why = f"{changed[0]} changes meanwhile" if changed else ""
            raise SetupError(
                f"CMD does not do the same twice: {why or _difference(base, again)}"
            )

    def _races(self) -> None:
        share = _ALL_NS // max(self.base.accesses, 1)
        plan = self._plan("race", each_ns=max(min(share, _LONG_NS), _EACH_NS))
        outcome = self._one(plan)
        for finding in self._wrong(plan, outcome):
            self._after.setdefault(finding.key, self.count)
        shared = sorted({*self.base.shared, *outcome.shared})
        for known in self.base, outcome:
            self._note_pairs(known)
        self._note_reached(outcome)
        plans = self._directed(shared)
        for _ in range(_AGAIN):  # the last runs may know more pairs
            for done in self._each(plans):
                self._note_pairs(done.outcome)
                self._judge(done.plan, done.outcome)
            plans = self._all_pairs()
        self._judge(plan, outcome)  # most of it is known now, by a smaller plan

    def _note_pairs(self, outcome: RunOutcome) -> None:
        for one, other in outcome.pairs:
            self._suspected[one] = None
            if other:
                self._suspected[other] = None
                self._sides |= {(one, other): None, (other, one): None}

    def _directed(self, shared: Sequence[int]) -> Iterator[RunPlan]:
        """Yield plans that hold one access until another one, or for long.

        First one side of each pair waits until the other has passed, which then waits
        in its turn, or does not. Then interrupts wait, and tasks come later to them.
        Then two functions wait at each access, one of them for longer, and single
        accesses: where several tasks use the same bytes.
        """
        yield from self._pairs(1, _LONG_NS)
        yield from self._phases()
        inside = self._by_function(shared)
        for slow, fast in islice(permutations(inside, 2), _MOST_FUNCTIONS):
            if self._is_ours(slow + fast):
                parts = (inside[slow], _LONG_NS), (inside[fast], _LONG_NS // 4)
                each = (
                    Order(number, ns, at)
                    for number in range(1, _AGAIN + 1)
                    for places, ns in parts
                    for at in places
                )
                orders = tuple(islice(each, _MOST_ORDERS))
                yield self._plan("function", orders=orders)
                yield from self._pairs(1, _LONG_NS)
        for orders in self._at_places(shared):
            if self._is_ours(orders[0].at):
                yield self._plan("place", orders=orders)
                yield from self._pairs(1, _LONG_NS)
        yield from self._all_pairs()

    def _phases(self) -> Iterator[RunPlan]:
        """Yield plans in which functions wait once: those of interrupts for long."""
        firsts, held = self._firsts(self._reached), self._firsts(self._interrupts)
        if not held:
            return
        for number, phase in enumerate(_PHASES):
            if self._is_ours(number):
                orders = tuple(
                    Order(time, ns, at)
                    for time in range(1, _AGAIN + 1)
                    for begin, at in firsts.items()
                    if (ns := _LONG_NS if begin in held else phase)
                )
                yield self._plan("phase", orders=orders[:_MOST_ORDERS])

    def _firsts(self, places: Iterable[int]) -> dict[int, int]:
        """Return the first that each function has of these instructions, by begin."""
        ordered, found = sorted(places), dict[int, int]()
        for begin, end in self._functions:
            number = bisect_left(ordered, begin)
            if number < len(ordered) and ordered[number] < end:
                found[begin] = ordered[number]
        return found

    def _at_places(self, shared: Sequence[int]) -> Iterator[tuple[Order, ...]]:
        """Yield waits at one place: each time for long, and then only one time.

        Tasks that wait equally long at a place go on in step.
        """
        places = dict.fromkeys([*self._suspected, *shared])
        numbers = range(1, _AGAIN + 1)
        for slow in ({*numbers}, *({number} for number in numbers)):
            waits = [(n, _LONG_NS if n in slow else _LONG_NS // 4) for n in numbers]
            for at in places:
                yield tuple(Order(number, ns, at) for number, ns in waits)

    def _all_pairs(self) -> Iterator[RunPlan]:
        for number in range(1, _AGAIN + 1):
            for then in (_LONG_NS, 0):
                yield from self._pairs(number, then)

    def _by_function(self, shared: Sequence[int]) -> dict[int, list[int]]:
        """Return instructions by the functions that have any of those in `shared`."""
        found = dict[int, list[int]]()
        for begin, end in self._functions:
            if any(begin <= at < end for at in shared):
                found[begin] = [at for at in sorted(self._reached) if begin <= at < end]
        return found

    def _pairs(self, number: int, then: int) -> Iterator[RunPlan]:
        """Yield plans for pairs, those that become known meanwhile, too."""
        while left := [
            side for side in self._sides if (side, number, then) not in self._made_pairs
        ]:
            side = left[0]
            self._made_pairs.add((side, number, then))
            if self._is_ours(sum(side)):
                order = Order(number, _LONG_NS, *side, then=then)
                yield self._plan("pair", orders=(order,))

    def _faults(self) -> None:
        numbers = range(1, min(self.base.calls, _MOST_FAULTS) + 1)
        plans = [self._plan("fault", faults=(n,)) for n in numbers if self._is_ours(n)]
        later: dict[int, int] = {}  # calls of a run, by that which fails
        for done in self._each(plans):
            self._judge(done.plan, done.outcome)
            if done.outcome.status >= 0 and not done.outcome.complaints:
                later[done.plan.faults[0]] = done.outcome.calls
        for done in self._each(self._two_faults(later)):
            self._judge(done.plan, done.outcome)

    def _two_faults(self, later: dict[int, int]) -> Iterator[RunPlan]:
        """Yield plans in which one more call fails behind the first, for some time.

        later: the number of calls made in a run, by that of the one which fails.
        """
        more = SCHEDULE in self._limits.kinds  # there is something to do afterwards
        until = self._left() * (1 - _TWO_FAULTS) if more else 0.0
        for first, calls in sorted(later.items()):
            for second in range(first + 1, min(calls, _MOST_FAULTS) + 1):
                self._two_left = self._left() < until
                if self._two_left:
                    return
                yield self._plan("two faults", faults=(first, second))

    def _is_ours(self, number: int) -> bool:
        part, parts = self._limits.shard
        # addresses are even more often than odd
        return (number * _GOLDEN >> _MIXED) % parts == part - 1

    def _by_chance(self, accesses: int) -> Iterator[RunPlan]:
        """Yield plans by four ways in turn, without an end."""
        ways = self._walk, self._places, self._point, self._timer
        for number in count():
            if self._is_ours(number):
                yield ways[number % len(ways)](Random(number), accesses)

    def _walk(self, chance: Random, accesses: int, way: str = "walk") -> RunPlan:
        whole = 2 * accesses + 16  # a run with waits may have more of them
        share = min(1 / _SHARE, _MOST_ORDERS / whole)
        timers = way == "timer"
        orders = []
        for number in range(1, whole + 1):
            if chance.random() < share:
                ns = int(_SHORTEST_NS * 2 ** (chance.random() * _DOUBLED))
                timer = timers and not chance.randrange(_TIMERS // _SHARE)
                orders.append(Order(number, ns, timer=timer))
        return self._plan(way, orders=tuple(orders[:_MOST_ORDERS]))

    def _places(self, chance: Random, accesses: int) -> RunPlan:
        """Return a plan in which some instructions wait whenever they are reached."""
        places = sorted(self._reached)
        some = chance.sample(places, min(chance.randrange(1, 5), len(places)))
        share = _ALL_NS // max(accesses, 1)
        ns = max(min(share, _LONG_NS), _EACH_NS) << chance.randrange(2)
        times = range(1, _AGAIN + 1)
        orders = tuple(Order(number, ns, at) for at in some for number in times)
        return self._plan("place", orders=orders)

    def _timer(self, chance: Random, accesses: int) -> RunPlan:
        return self._walk(chance, accesses, "timer")

    def _point(self, chance: Random, accesses: int) -> RunPlan:
        order = Order(chance.randrange(accesses) + 1, _LONG_NS)
        return self._plan("point", orders=(order,))

    # ---- findings
    def _judge(self, plan: RunPlan, outcome: RunOutcome) -> None:
        """Note what a run has found, make what is new small, and tell of it."""
        self._lines.folders.update(
            os.path.dirname(path) for path in outcome.reads if path.endswith(".ko")
        )
        self._note_reached(outcome)
        self._note_counted(outcome)
        small: SearchFinding | None = None
        for finding in list(self._found_by(plan, outcome)):
            key = finding.key
            self.times[key] = self.times.get(key, 0) + 1
            if key in self.found:
                continue
            group = finding.kind, finding.place
            if self._kept[group] >= _MOST_OF_PLACE or (
                self._kept[finding.kind] >= _MOST_OF_KIND
            ):
                self.more[group] = self.more.get(group, 0) + (self.times[key] == 1)
                continue
            self.found[key] = finding  # also if a signal comes meanwhile
            self._kept.update((group, finding.kind))
            after = self._after.setdefault(key, self.count)
            alike = small and self._in(key, small.plan, small.outcome)
            small = alike or self._smaller(finding)
            self._tell(small, after)
            # of its outcome, which may be large, nobody needs more
            told = small.outcome._replace(reports=(), pairs=(), reached=(), shared=())
            told = told._replace(functions=(), counted=())
            self.found[key] = small._replace(outcome=told)

    def _note_reached(self, outcome: RunOutcome) -> None:
        self._reached.update(outcome.reached)
        self._interrupts.update(outcome.interrupts)
        self._functions.update({(b, e): name for b, e, name in outcome.functions})

    def _note_counted(self, outcome: RunOutcome) -> None:
        counted = Counter(
            (report.kind, function_of(report.title))
            for report in outcome.counted
            if report.kind in self._limits.kinds and self._races_told.is_told(report)
        )
        if counted.total() > self._counted.total():
            self._counted = counted
        self._lost = max(self._lost, outcome.lost)
        self._untracked = max(self._untracked, outcome.untracked)

    def _found_by(self, plan: RunPlan, outcome: RunOutcome) -> Iterator[SearchFinding]:
        """Yield what a run has found, with the calls that have failed in it."""
        failed = [*map(self._lines.shown, outcome.failed)]
        for finding in self._wrong(plan, outcome):
            yield finding._replace(lines=[*failed, *finding.lines])

    def _wrong(self, plan: RunPlan, outcome: RunOutcome) -> Iterator[SearchFinding]:
        for report in outcome.reports:
            if report.kind in self._limits.kinds and self._races_told.is_told(report):
                yield self._of_report(report, plan, outcome)
        kind = FAULT if plan.faults else SCHEDULE
        if kind not in self._limits.kinds and plan.way != "base":
            return
        known = {*map(_steady, self.base.complaints)}
        for line in outcome.complaints:
            if _steady(line) not in known:
                title = f"the kernel complains: {line}"
                key = kind, "log", _steady(line)
                yield SearchFinding(kind, title, (), key, plan, outcome)
                return
        if outcome.status < 0:
            title, *lines = outcome.why.splitlines() or ["it has no end"]
            yield SearchFinding(
                kind, title, lines, (kind, _steady(title)), plan, outcome
            )
        elif outcome.status != self.base.status and kind == SCHEDULE:
            last = outcome.output.strip().splitlines()[-1:] or [""]
            title = f"wrong result: status {outcome.status}"
            title += f", {last[0]}" if last[0] else ""
            key = kind, "status", str(outcome.status)
            yield SearchFinding(kind, title, (), key, plan, outcome)

    def _of_report(
        self, report: CheckReport, plan: RunPlan, outcome: RunOutcome
    ) -> SearchFinding:
        title, *lines = map(self._lines.shown, (report.title, *report.lines))
        return SearchFinding(
            report.kind, title, lines, tuple(report.key), plan, outcome
        )

    def _shows(self, key: tuple[str, ...], plan: RunPlan) -> SearchFinding | None:
        began = time.monotonic()
        outcome = self._one(plan, SMALLER)
        self._shrunk += time.monotonic() - began
        return self._in(key, plan, outcome)

    def _in(
        self, key: tuple[str, ...], plan: RunPlan, outcome: RunOutcome
    ) -> SearchFinding | None:
        """Return the finding of a run that has this key."""
        found = self._found_by(plan, outcome)
        return next((each for each in found if each.key == key), None)

    def _may_shrink(self) -> bool:
        return self._left() > 0 and self._shrunk < SHRINK * self._limits.seconds

    def _smaller(self, finding: SearchFinding) -> SearchFinding:
        """Return a finding with as few waits as it can be shown by."""
        plan = finding.plan
        if plan.each_ns:
            numbers = range(1, min(finding.outcome.accesses, _MOST_ORDERS) + 1)
            each = tuple(Order(number, plan.each_ns) for number in numbers)
            plan = plan._replace(each_ns=0, orders=each)
            if (
                not self._may_shrink()
                or (alike := self._shows(finding.key, plan)) is None
            ):
                return finding
            finding = alike
        orders = [
            o for o in plan.orders if o.at or o.number <= finding.outcome.accesses
        ]
        tries = _TRIES
        step = max(len(orders) // 2, 1)
        while len(orders) > 1 and tries and self._may_shrink():
            for first in range(0, len(orders), step):
                rest = orders[:first] + orders[first + step :]
                tries -= 1
                shown = self._shows(finding.key, plan._replace(orders=tuple(rest)))
                if shown is not None:
                    finding, orders = shown, rest
                    break
                if not tries:
                    break
            else:
                if step == 1:
                    break
                step = max(step // 2, 1)
            step = min(step, max(len(orders) // 2, 1))
        return finding


def _steady(line: str) -> str:
    """Return a line without what changes from run to run."""
    return _CHANGING.sub("N", line)


def _difference(one: RunOutcome, other: RunOutcome) -> str:
    if one.status != other.status:
        return f"status {one.status}, then {other.status}"
    if one.output != other.output:
        pairs = zip(one.output.splitlines(), other.output.splitlines(), strict=False)
        lines = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
        return f"it printed {lines[0]!r}, then {lines[1]!r}"
    return f"{one.blocks} blocks of code, then {other.blocks}"
