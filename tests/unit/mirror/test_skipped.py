# SPDX-License-Identifier: GPL-2.0-or-later
"""The calls that are skipped, and what is done in their place."""

import errno

import pytest

from kpfs.base.syscall_numbers import EXECVE, EXIT_GROUP
from kpfs.mirror.seccomp import Notification
from kpfs.mirror.skipped import SkippedCalls
from tests.there import stand_in

GETPID, WRITE, OPENAT, KEPT = 39, 1, 257, 175
PID, TREE_FD, STATUS = 7, 3, 5


class Told:
    """Stands for tasks, host, writer and answers; notes its calls."""

    calls = frozenset((OPENAT,))

    def __init__(self):
        self.log: list[tuple[object, ...]] = []

    def another(self):
        return self

    def fd_in_tree(self, _pid, fd):
        return fd == TREE_FD

    def forget(self, pid):
        self.log.append(("forget", pid))

    def leave_out(self, pid):
        self.log.append(("left out", pid))

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
    return SkippedCalls(one, one, told.write, one, [KEPT])


def note(nr, first=0):
    return Notification(1, PID, nr, (first, 0, 0, 0, 0, 0))


def commit():
    return True


LEFT = [("left out", PID)]
EXECUTES = [("executes", PID), ("forget", PID), ("forget", PID)]


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
    assert left_out.answer(note(OPENAT), commit, b"modules") == -errno.ENOENT
    assert left_out.answer(note(OPENAT), commit, b"other") is None
    assert left_out.answer(note(GETPID), commit) is None


def test_no_call_is_answered(told):
    one = stand_in(told)
    plain = SkippedCalls(one, one, told.write)
    assert plain.skip(note(OPENAT, 1))
    assert plain.make(note(OPENAT, 1), commit) is None
