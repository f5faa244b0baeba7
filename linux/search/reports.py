# SPDX-License-Identifier: GPL-2.0-or-later
"""Reports of what the checks of a run have found, in words.

A place is FUNCTION+OFFSET [MODULE]. Lines of sources are added later, by the files of
the modules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from kpfs.base import abi
from kpfs.base.errors import MemoryFault
from kpfs.base.kinds import IBT, LOCK, MEMORY, RACE
from kpfs.linux.search.callees import CalledCode, Callees

if TYPE_CHECKING:
    from kpfs.linux.running.kernel_on_board import KernelOnBoard
    from kpfs.linux.search.hold import Holds
    from kpfs.linux.search.locks import Locks
    from kpfs.linux.search.objects import ObjectRow, Objects
    from kpfs.linux.search.texts import CountedRow, FindingRow, Texts

UNTRACKED = "{} objects of one run were too many to be looked at"
_DEEPEST = 8  # functions of a stack that are told
_NAMED = 8  # functions of findings that are only counted
_FUNCTION = re.compile(r"(\S+?)\+0x[0-9a-f]+( \[\S+\])?")
_HARD_IRQ = 0xFF0000  # in the count of preemption
_INTERRUPTS = ("an interrupt", "a soft interrupt")


class CheckReport(NamedTuple):
    """Something wrong that a check has seen in a run."""

    kind: str  # one of KINDS
    title: str
    lines: Sequence[str]
    key: Sequence[str]  # the same for all reports of one fault
    races: Sequence[str] = ()  # places of the two accesses that race
    loads: Sequence[RacingLoad] = ()

    @property
    def text(self) -> str:
        return "\n    ".join((self.title, *self.lines))


def function_of(title: str) -> str:
    """Return the function that a title names first, "" if it names none."""
    found = _FUNCTION.search(title)
    return f"{found[1]}{found[2] or ''}" if found else ""


def counts_by_place(counts: Mapping[str, int]) -> str:
    """Return words for numbers of findings: counts, by their functions."""
    places = sorted(counts, key=lambda place: -counts[place])
    named = [f"{counts[place]} at {place or 'no place'}" for place in places[:_NAMED]]
    rest = sum(counts[place] for place in places[_NAMED:])
    named += [f"{rest} at {len(places) - _NAMED} other places"] if rest else []
    return ", ".join(named)


def counted_words(counted: Mapping[tuple[str, str], int], lost: int) -> list[str]:
    """Return lines about findings of one run that were too many to be kept.

    counted: their numbers, by kind and function.  lost: of those not even counted.
    """
    by_kind: dict[str, dict[str, int]] = {}
    for (kind, place), number in counted.items():
        by_kind.setdefault(kind, {})[place] = number
    lines = [
        f"{kind}: {sum(counts.values())} more findings of one run are only counted: "
        f"{counts_by_place(counts)}"
        for kind, counts in by_kind.items()
    ]
    if lost:
        lines.append(f"{lost} more findings of one run are not told")
    return lines


class RacingLoad(NamedTuple):
    """A load that races, and what its tasks have done behind it."""

    code: str  # its function, in hexadecimal digits
    at: int  # offset in the code
    looked_at: Sequence[int]  # offsets of the instructions that lookers see
    trails: Sequence[Sequence[int]]  # offsets of those that came next, by task
    arch: str  # its name
    calls: Sequence[CalledCode] = ()  # that the function makes

    @classmethod
    def unpacked(cls, row: Sequence[Any]) -> RacingLoad:
        """Return what JSON had as a list."""
        load = cls(*row)
        return load._replace(calls=[*map(CalledCode.unpacked, load.calls)])


class RacePair(NamedTuple):
    """Two accesses that race, or one whose time matters, by their addresses."""

    at: int
    other: int  # 0: it is not known


def pairs(texts: Texts) -> Iterator[RacePair]:
    """Yield the pairs that have raced, told or not, and places of circles of locks."""
    rows: Iterator[FindingRow | CountedRow] = chain(texts.findings(), texts.counted())
    for row in rows:
        if row.kind == abi.FOUND_RACE:
            yield RacePair(row.at, row.other)
        elif row.kind == abi.FOUND_CHANGED:
            yield RacePair(row.at, 0)
        elif row.kind == abi.FOUND_LOCK_ORDER:
            yield RacePair(row.at, 0)
            yield RacePair(row.other, 0)


def failed(texts: Texts) -> Iterator[str]:
    """Yield which calls have failed because a plan says so, and from where."""
    for row in texts.findings():
        if row.kind == abi.FOUND_FAULT:
            texts.when = row.block
            name = texts.place(row.a).partition("+")[0]
            yield f"{name}() fails, called at {texts.place(row.at)}"


class Reports:
    """The reports of one run."""

    def __init__(
        self,
        kernel: KernelOnBoard,
        texts: Texts,
        objects: Objects | None = None,
        locks: Locks | None = None,
        holds: Holds | None = None,
    ) -> None:
        """objects, locks, holds: None if the run has none of them."""
        self._kernel, self._texts = kernel, texts
        self._objects, self._locks, self._holds = objects, locks, holds
        self._callees = Callees(kernel, texts)
        self._makers: dict[int, Callable[[int, FindingRow], CheckReport]] = {
            abi.FOUND_RACE: self._race,
            abi.FOUND_CHANGED: self._changed,
            abi.FOUND_LOCK_ORDER: self._circle,
            abi.FOUND_LOCK_IN_IRQ: self._lock_in_irq,
            abi.FOUND_SLEEP: self._sleep,
            abi.FOUND_IBT: self._branch,
            **dict.fromkeys(_MEMORY, self._memory),
        }

    def of_findings(self) -> Iterator[CheckReport]:
        """Yield a report for each finding that is told."""
        for number, row in enumerate(self._texts.findings()):
            if make := self._makers.get(row.kind):
                self._texts.when = row.block  # another module may be there later
                yield make(number, row)
        self._texts.when = None

    def counted(self) -> Iterator[CheckReport]:
        """Yield what is known of findings that were too many to be kept."""
        for row in self._texts.counted():
            if kind := _KINDS.get(row.kind):
                self._texts.when = row.block
                places = [self._place(row.at)]
                places += [self._place(row.other)] if row.other else []
                title = f"{kind}: {' and '.join(places)}"
                races = places if kind == RACE else ()
                yield CheckReport(kind, title, (), (title,), races)
        self._texts.when = None

    # ---- races
    def _race(self, number: int, row: FindingRow) -> CheckReport:
        assert self._holds is not None
        one, other = self._place(row.at), self._place(row.other)
        verbs = verb(row.a), verb(row.b)
        title = f"data race: {one} {verbs[0]} what {other} {verbs[1]}"
        far = self._holds.waiting(number)
        lines = (
            self._side(row.cpu, one, task_of(row.pid, row.comm), row.stack),
            self._side(row.c, other, task_of(far.pid, far.comm), far.stack),
        )
        loads = [*self._loads(row.at), *self._loads(row.other)]
        key = RACE, *sorted((one, other))
        return CheckReport(RACE, title, lines, key, (one, other), loads)

    def _loads(self, address: int) -> Iterator[RacingLoad]:
        assert self._holds is not None
        trails = self._holds.trails(address)
        function = self._texts.function_at(address) if trails else None
        if function is not None:
            begin, code, looked_at = function
            steps = [[step - begin for step in trail.steps] for trail in trails]
            at, arch = address - begin, self._kernel.arch.name
            calls = [*self._callees.of(begin, code)]
            for place, target in {pair for t in trails for pair in t.calls.items()}:
                calls.append(self._callees.called(place - begin, target))
            yield RacingLoad(code.hex(), at, looked_at, steps, arch, calls)

    def _changed(self, _number: int, row: FindingRow) -> CheckReport:
        place = self._place(row.at)
        title = f"data race: code elsewhere changes what {place} {verb(row.c)}"
        lines = (
            f"it was {row.a:#x}, and is {row.b:#x} when {place} goes on",
            self._side(row.cpu, place, task_of(row.pid, row.comm), row.stack),
        )
        return CheckReport(RACE, title, lines, (RACE, place, "elsewhere"), (place,))

    def _side(self, cpu: int, place: str, task: str, stack: Sequence[int]) -> str:
        calls = self._calls(self._without_last_call(stack, place), place)
        return f"{task} on CPU {cpu}, in {calls}"

    # ---- memory
    def _memory(self, _number: int, row: FindingRow) -> CheckReport:
        size = f"{row.b} byte{'s' * (row.b != 1)}"
        local, writes = row.c >> abi.HOW_LOCAL, row.c & 1
        access = f"{'write' if writes else 'read'} of {size}"
        is_free = row.kind in (abi.FOUND_DOUBLE_FREE, abi.FOUND_INVALID_FREE)
        place = self._call(row.at) if is_free else self._place(row.at)
        what = _OF_ANOTHER_KIND if is_free and writes else _MEMORY[row.kind]
        title = f"memory: {what.format(access)} at {place}"
        lines = [self._where(row)]
        if self._objects is not None and row.object:
            lines += self._of_object(self._objects.row(row.object - 1), row)
        if self._objects is not None and local:
            lines.append(self._objects.frames.describe(local - 1))
        return CheckReport(MEMORY, title, lines, (title,))

    def _of_object(self, found: ObjectRow, row: FindingRow) -> Iterator[str]:
        distance = row.a - found.addr
        if distance < 0:
            where = f"{-distance} before"
        elif distance >= found.size:
            where = f"{distance - found.size} behind"
        else:
            where = f"byte {distance} of"
        yield f"{where} an object of {found.size} bytes"
        yield f"allocated by {self._maker(found)}"
        if found.freed_at:
            task = task_of(found.freed_pid, found.freed_comm)
            stack = self._in(found.freed_stack, found.freed_at)
            yield f"freed by {task} at {self._call(found.freed_at)}{stack}"

    def _maker(self, found: ObjectRow) -> str:
        name = self._texts.function_name(found.function)
        task, stack = task_of(found.pid, found.comm), self._in(found.stack, found.at)
        return f"{task} with {name} at {self._place(found.at)}{stack}"

    def leaks(self, gone: Iterable[int]) -> Iterator[CheckReport]:
        """Yield a report for each place whose objects nobody has freed.

        gone: the numbers of texts that are no more.
        """
        if self._objects is None:
            return
        by_place: dict[str, list[ObjectRow]] = {}
        for number in gone:
            for found in self._objects.of_owner(number):
                self._texts.when = self._texts.began[number - 1]
                by_place.setdefault(self._place(found.at), []).append(found)
        for place, rows in by_place.items():
            first, more = rows[0], len(rows) - 1
            self._texts.when = self._texts.began[first.owner - 1]
            others = f", and {more} more of the same place" if more else ""
            title = f"memory: leak of {first.size} bytes at {place}{others}"
            lines = (f"allocated by {self._maker(first)}",)
            yield CheckReport(MEMORY, title, lines, (MEMORY, "leak", place))
        self._texts.when = None

    # ---- locks
    def _circle(self, _number: int, row: FindingRow) -> CheckReport:
        assert self._locks is not None
        lines, ways = [self._where(row)], set[tuple[str, str]]()
        for order in self._locks.circle(row):
            task, stack = (
                task_of(order.pid, order.comm),
                self._in(order.stack, order.wanted_at),
            )
            held, wanted = self._place(order.held_at), self._place(order.wanted_at)
            ways.add((held, wanted))
            lines.append(
                f"{task} has lock {order.held:#x}, taken at {held},"
                f" and takes {order.wanted:#x} at {wanted}{stack}"
            )
        title = f"lock: {row.a} locks are taken in a circle at {self._place(row.at)}"
        # the same circle is found wherever it is closed
        return CheckReport(LOCK, title, lines, (LOCK, *sum(sorted(ways), ())))

    def _lock_in_irq(self, _number: int, row: FindingRow) -> CheckReport:
        what, place = _INTERRUPTS[row.a], self._place(row.at)
        other = self._place(row.other)
        title = f"lock: taken in {what} at {place}, and while one may come at {other}"
        return CheckReport(LOCK, title, [self._where(row)], (LOCK, place, other))

    def _sleep(self, _number: int, row: FindingRow) -> CheckReport:
        name, place = self._texts.function_name(row.a), self._place(row.at)
        title = f"lock: {name} may sleep at {place}, {self._why_atomic(row)}"
        return CheckReport(LOCK, title, [self._where(row)], (LOCK, "sleep", place))

    def _why_atomic(self, row: FindingRow) -> str:
        if row.c:
            return f"under the spinlock taken at {self._place(row.c)}"
        if row.b & _HARD_IRQ:
            return "in an interrupt"
        return "with preemption off" if row.b else "with interrupts off"

    # ---- branches
    def _branch(self, _number: int, row: FindingRow) -> CheckReport:
        place, target = self._place(row.at), self._place(row.a)
        title = f"ibt: a branch at {place} leads to {target}, which is no endbr64"
        return CheckReport(IBT, title, [self._where(row)], (title,))

    # ---- places, tasks, stacks
    def _place(self, address: int) -> str:
        return self._texts.place(address) or f"{address:#x}"

    def _call(self, back: int) -> str:
        """Return the place of the call that returns to an address."""
        return self._place(back - 1)

    def _where(self, row: FindingRow) -> str:
        times = f", {row.count} times" if row.count > 1 else ""
        task = task_of(row.pid, row.comm)
        return f"by {task} on CPU {row.cpu}{times}{self._in(row.stack, row.at)}"

    def _in(self, stack: Sequence[int], at: int) -> str:
        calls = self._calls(self._without_last_call(stack, self._place(at)))
        return f", in {calls}" if calls else ""

    def _without_last_call(self, stack: Sequence[int], place: str) -> Sequence[int]:
        """Leave out where the function itself has called last, if that is kept."""
        if not self._texts.arch.has_link or not stack:
            return stack
        name, _, _ = self._place(stack[0]).partition("+")
        return stack[1:] if place.startswith(f"{name}+") else stack

    def _calls(self, words: Iterable[int], *innermost: str) -> str:
        """Return the functions that a stack's words return to, innermost first."""
        names = [
            self._texts.place(word)
            for word in words
            if word and self._is_behind_call(word)
        ]
        found = list(dict.fromkeys((*innermost, *filter(None, names))))[:_DEEPEST]
        for number, name in enumerate(found):
            if name.startswith(
                self._texts.arch.outermost
            ):  # what follows is left of earlier calls
                found = found[: number + 1]
                break
        return " < ".join(found)

    def _is_behind_call(self, address: int) -> bool:
        arch = self._texts.arch
        size = arch.longest_call
        try:
            code = self._kernel.memory.read(address - size, size)
        except MemoryFault:
            return self._texts.text_at(address) is not None  # it is gone
        return arch.is_call(code)


def task_of(pid: int, comm: Iterable[int]) -> str:
    """Return what a task is called."""
    name = bytes(comm).split(b"\0")[0].decode("latin-1")
    return f"task {pid} ({name})"


def verb(flags: int) -> str:
    """Return what an instruction with these flags does to memory."""
    both = abi.INSN_READS | abi.INSN_WRITES
    if flags & both == both:
        return "changes"
    return "writes" if flags & abi.INSN_WRITES else "reads"


_OF_ANOTHER_KIND = "free of an object of another kind"
# what is told of a finding; {} is its access
_MEMORY = {
    abi.FOUND_OUT_OF_BOUNDS: "{} out of bounds",
    abi.FOUND_USE_AFTER_FREE: "{} after free",
    abi.FOUND_DOUBLE_FREE: "double free",
    abi.FOUND_INVALID_FREE: "free of what is no object",
    abi.FOUND_STACK: "{} beyond an array on the stack",
    abi.FOUND_GLOBAL: "{} beside a variable",
    abi.FOUND_UNINITIALIZED: "{} that nobody has written",
}
_KINDS = {
    abi.FOUND_RACE: RACE,
    abi.FOUND_CHANGED: RACE,
    abi.FOUND_LOCK_ORDER: LOCK,
    abi.FOUND_LOCK_IN_IRQ: LOCK,
    abi.FOUND_SLEEP: LOCK,
    abi.FOUND_IBT: IBT,
    **dict.fromkeys(_MEMORY, MEMORY),
}
