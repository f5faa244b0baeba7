# SPDX-License-Identifier: GPL-2.0-or-later
"""The calls that are skipped, and what is done in their place."""

import errno
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from kpfs.base.lock import FairLock
from kpfs.base.skip_policy import EVERY
from kpfs.base.syscall_numbers import EXECVE, EXIT, EXIT_GROUP, GETPID, OPENAT, WRITE
from kpfs.base.syscall_numbers import INIT_MODULE as KEPT
from kpfs.mirror.fast_path import ASK, GO, PATH
from kpfs.mirror.fast_path import EXIT as ENDS
from kpfs.mirror.seccomp import Notification
from kpfs.mirror.skipped import SkippedCalls
from tests.there import stand_in

PID, TREE_FD, STATUS = 7, 3, 5


class Told:
    """Stands for tasks, host, writer and answers; notes its calls."""

    calls = frozenset((OPENAT,))
    names_absent = frozenset((b"modules",))
    forgets = False
    known = False

    def __init__(self):
        self.behind = {PID}
        self.log: list[tuple[object, ...]] = []

    def fd_in_tree(self, _pid, fd):
        return fd == TREE_FD

    def forget(self, pid):
        self.log.append(("forget", pid))

    def drop(self, pid):
        self.behind.discard(pid)

    def knows(self, _pid):
        return self.known

    def leave_out(self, pid):
        self.log.append(("left out", pid))
        return self.forgets

    def leave_out_exit(self, pid, status):
        self.log.append(("exit", pid, status))

    def executes(self, pid):
        self.log.append(("executes", pid))

    def write(self, _note, _commit):
        return 11

    def concerns(self, note, _host):
        return note.args[0] == 1

    def means(self, _nr, text):
        return text == b"modules"

    def __call__(self, _note, _host, _commit):
        return -errno.ENOENT


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def left_out(told):
    one = stand_in(told)
    return SkippedCalls(one, one, told.write, FairLock(), one, [KEPT])


def note(nr, first=0):
    return Notification(1, PID, nr, (first, 0, 0, 0, 0, 0))


def commit():
    return True


LEFT = [("left out", PID)]
EXECUTES = [("executes", PID), ("forget", PID)]


@pytest.mark.parametrize(
    ("nr", "first", "log"),
    [
        (GETPID, 0, LEFT),
        (WRITE, TREE_FD + 1, LEFT),
        (OPENAT, 0, LEFT),
        (EXECVE, 0, EXECUTES + LEFT),
    ],
)
def test_for_most_calls_nothing_remains(left_out, told, nr, first, log):
    assert left_out.skip(note(nr, first))
    assert told.log == log


@pytest.mark.parametrize(
    ("nr", "first"), [(WRITE, TREE_FD), (OPENAT, 1), (EXIT_GROUP, 0), (KEPT, 0)]
)
def test_others_are_not_skipped(left_out, told, nr, first):
    assert not left_out.skip(note(nr, first))
    assert told.log == []


@pytest.mark.parametrize(
    ("nr", "gives", "log"),
    [
        (GETPID, None, LEFT),
        (WRITE, 11, LEFT),
        (OPENAT, -errno.ENOENT, LEFT),
        (EXECVE, None, LEFT + EXECUTES),
        (EXIT_GROUP, None, [("exit", PID, STATUS), *EXECUTES[1:]]),
    ],
)
def test_what_remains_is_done(left_out, told, nr, gives, log):
    """An exec, too, that nobody sees any more since it was received."""
    assert left_out.make(note(nr, STATUS), commit) == gives
    assert told.log == log


def test_an_answer_is_for_the_path_that_is_meant(left_out):
    plan = SimpleNamespace(text=b"modules")
    assert left_out.answer(note(OPENAT), commit, plan) == -errno.ENOENT
    plan.text = b"other"
    assert left_out.answer(note(OPENAT), commit, plan) is None
    assert left_out.answer(note(GETPID), commit) is None


def test_no_call_is_answered(told):
    one = stand_in(told)
    plain = SkippedCalls(one, one, told.write, FairLock())
    assert plain.skip(note(OPENAT, 1))
    assert plain.make(note(OPENAT, 1), commit) is None


def ways(left_out, seen, *numbers):
    """Return the ways of calls on the fast path, after one call of a process."""
    path = left_out.fast_path
    left_out.open_fast_path(path.turn, PID, seen)
    return [path.ways[number] for number in numbers] if path.is_open else None


def test_only_plain_calls_that_nobody_sees_take_the_fast_path(left_out):
    particular = WRITE, EXECVE, EXIT, KEPT
    assert ways(left_out, frozenset(), GETPID, OPENAT) == [GO, PATH + 1]
    assert ways(left_out, frozenset(), *particular) == [ASK] * len(particular)
    assert ways(left_out, frozenset(), EXIT_GROUP) == [ENDS]
    with left_out.fast_path._lock:
        pass  # where somebody has begun to look
    seen = frozenset((GETPID, EXIT_GROUP))
    assert ways(left_out, seen, GETPID, OPENAT, EXIT_GROUP) == [ASK, PATH + 1, ASK]


@pytest.mark.parametrize("seen", [None, EVERY], ids=["unknown", "every"])
def test_no_call_takes_the_fast_path_unless_it_is_known_to_be_unseen(left_out, seen):
    assert ways(left_out, seen) is None


def test_no_path_is_opened_while_somebody_may_begin_to_look(left_out):
    path = left_out.fast_path
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
    assert PID in left_out.fast_path.pids[:]
    left_out.make(note(ends), commit)
    assert PID not in left_out.fast_path.pids[:]


def test_fast_path_is_closed_once_processes_are_forgotten(left_out, told):
    assert ways(left_out, frozenset()) == []
    told.forgets = True
    left_out.leave_out(PID + 1)
    assert not left_out.fast_path.is_open


def test_call_that_went_on_late_is_noted(left_out, told):
    assert ways(left_out, frozenset()) == []
    left_out.went_on(note(GETPID))
    assert told.log == []
    with left_out.fast_path._lock:
        pass
    left_out.went_on(note(GETPID))
    assert told.log == LEFT


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("taken", [False, True])
def test_process_that_has_ended_alone_is_forgotten(left_out, told, known, taken):
    """A process that may have a task is not: the task is to end as well."""
    path, told.known = left_out.fast_path, known
    path.ended[0], path.nr_ended = PID, 1
    with path._lock if taken else nullcontext():
        left_out.note_ended()
    assert told.behind == ({PID} if known or taken else set())
    assert told.log == [("forget", PID)]
    assert path.nr_ended == 0


def test_fast_path_stays_open_after_a_turn_that_has_changed_nothing(left_out):
    before, path = frozenset((EXECVE,)), left_out.fast_path
    assert ways(left_out, before) == []
    for seen, stays in ((before, True), (frozenset((GETPID,)), False)):
        with path._lock:
            left_out.stay(seen)
        assert path.is_open == stays
