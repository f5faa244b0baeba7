# SPDX-License-Identifier: GPL-2.0-or-later
"""The calls that are skipped, and what is done in their place."""

import errno
from types import SimpleNamespace

import pytest

from kpfs.base.skip_policy import EVERY
from kpfs.base.syscall_numbers import EXECVE, EXIT, EXIT_GROUP, GETPID, OPENAT, WRITE
from kpfs.base.syscall_numbers import INIT_MODULE as KEPT
from kpfs.mirror.fast_path import ASK, GO, PATH
from kpfs.mirror.fast_path import EXIT as ENDS
from kpfs.mirror.seccomp import Notification
from kpfs.mirror.skipped import SkippedCalls
from tests.there import stand_in
from tests.unit.mirror.fakes import PID, TREE_FD, FakeTable


class Overrides:
    calls = frozenset((OPENAT,))
    names_absent = frozenset((b"modules",))

    def concerns(self, note, _host):
        return note.args[0] == 1

    def means(self, _nr, text):
        return text == b"modules"

    def __call__(self, _note, _host, _commit):
        return -errno.ENOENT


def write(_note, _commit):
    return 11


@pytest.fixture
def log():
    return []


@pytest.fixture
def table(log):
    return FakeTable(log)


@pytest.fixture
def left_out(table):
    return SkippedCalls(table, write, stand_in(Overrides()), [KEPT])


def note(nr, first=0):
    return Notification(1, PID, nr, (first, 0, 0, 0, 0, 0))


def commit():
    return True


LEFT = [("left out", PID)]
EXECUTES = [("executes", PID), ("forget", PID)]


@pytest.mark.parametrize(
    ("nr", "first", "told"),
    [
        (GETPID, 0, LEFT),
        (WRITE, TREE_FD + 1, LEFT),
        (OPENAT, 0, LEFT),
        (EXECVE, 0, EXECUTES + LEFT),
    ],
)
def test_for_most_calls_nothing_remains(left_out, log, nr, first, told):
    assert left_out.skip(note(nr, first))
    assert log == told


@pytest.mark.parametrize(
    ("nr", "first"), [(WRITE, TREE_FD), (OPENAT, 1), (EXIT_GROUP, 0), (KEPT, 0)]
)
def test_others_are_not_skipped(left_out, log, nr, first):
    assert not left_out.skip(note(nr, first))
    assert log == []


@pytest.mark.parametrize(
    ("nr", "gives", "told"),
    [
        (GETPID, None, LEFT),
        (WRITE, 11, LEFT),
        (OPENAT, -errno.ENOENT, LEFT),
        (EXECVE, None, LEFT + EXECUTES),
        (EXIT_GROUP, None, EXECUTES[1:]),
    ],
)
def test_what_remains_is_done(left_out, log, nr, gives, told):
    """An exec, too, that nobody sees any more since it was received."""
    assert left_out.make(note(nr), commit) == gives
    assert log == told


def test_an_answer_is_for_the_path_that_is_meant(left_out):
    plan = SimpleNamespace(text=b"modules")
    assert left_out.answer(note(OPENAT), commit, plan) == -errno.ENOENT
    plan.text = b"other"
    assert left_out.answer(note(OPENAT), commit, plan) is None
    assert left_out.answer(note(GETPID), commit) is None


def test_no_call_is_answered(table):
    plain = SkippedCalls(table, write)
    assert plain.skip(note(OPENAT, 1))
    assert plain.make(note(OPENAT, 1), commit) is None


def ways(left_out, seen, *numbers):
    """Return the ways of calls on the fast path, after one call of a process."""
    path = left_out.tasks.fast_path
    left_out.open_fast_path(path.turn, PID, seen)
    return [path.ways[number] for number in numbers] if path.is_open else None


def test_only_plain_calls_that_nobody_sees_take_the_fast_path(left_out):
    particular = WRITE, EXECVE, EXIT, KEPT
    assert ways(left_out, frozenset(), GETPID, OPENAT) == [GO, PATH + 1]
    assert ways(left_out, frozenset(), *particular) == [ASK] * len(particular)
    assert ways(left_out, frozenset(), EXIT_GROUP) == [ENDS]
    with left_out.tasks.fast_path._lock:
        pass  # where somebody has begun to look
    seen = frozenset((GETPID, EXIT_GROUP))
    assert ways(left_out, seen, GETPID, OPENAT, EXIT_GROUP) == [ASK, PATH + 1, ASK]


@pytest.mark.parametrize("seen", [None, EVERY], ids=["unknown", "every"])
def test_no_call_takes_the_fast_path_unless_it_is_known_to_be_unseen(left_out, seen):
    assert ways(left_out, seen) is None


def test_no_path_is_opened_while_somebody_may_begin_to_look(left_out):
    path = left_out.tasks.fast_path
    with path._lock:
        assert ways(left_out, frozenset()) is None
    turn = path.turn
    with path._lock:
        pass
    left_out.open_fast_path(turn, PID, frozenset())
    assert not path.is_open


@pytest.mark.parametrize("ends", [EXIT_GROUP, EXECVE])
def test_process_that_ends_or_executes_leaves_the_fast_path(left_out, ends):
    assert ways(left_out, frozenset()) == []
    assert PID in left_out.tasks.fast_path.pids[:]
    left_out.make(note(ends), commit)
    assert PID not in left_out.tasks.fast_path.pids[:]


def test_fast_path_is_closed_once_processes_are_forgotten(left_out, table, monkeypatch):
    monkeypatch.setattr("kpfs.mirror.process_table.MEMBERS_MAX", 1)
    assert ways(left_out, frozenset()) == []
    table.leave_out(PID)
    assert table.fast_path.is_open
    table.leave_out(PID + 1)
    assert not table.fast_path.is_open
    assert table.behind == {PID}


def test_call_that_went_on_late_is_noted(left_out, table, log):
    assert ways(left_out, frozenset()) == []
    table.went_on(note(GETPID))
    assert log == []
    with table.fast_path._lock:
        pass
    table.went_on(note(GETPID))
    assert log == LEFT


def test_fast_path_stays_open_after_a_turn_that_has_changed_nothing(left_out, table):
    before, path = frozenset((EXECVE,)), table.fast_path
    assert ways(left_out, before) == []
    for seen, stays in ((before, True), (frozenset((GETPID,)), False)):
        with path._lock:
            table.unchanged(seen)
        assert path.is_open == stays
