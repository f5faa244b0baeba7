# SPDX-License-Identifier: GPL-2.0-or-later
"""The supervisor with a replayer of the test's own."""

import errno
import mmap
import os
import threading
import time

import pytest

from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError
from kpfs.base.lock import FairLock
from kpfs.mirror.keeper import SLOT, SLOTS, SLOTS_MAX, STATE_SIZE, take_over
from kpfs.mirror.supervisor import Supervisor
from tests.unit.mirror.test_seccomp import filtered


def supervise(numbers, body, replay, settled=None, **judges):
    """Run body() in a process under the filter: its status."""
    pid, listener = filtered(numbers, body)
    state = mmap.mmap(-1, STATE_SIZE)
    supervisor = Supervisor(listener, state, replay, settled, **judges)
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    status = os.waitpid(pid, 0)[1]
    thread.join(10)
    assert not thread.is_alive()
    os.close(listener)
    return pid, status


def fork_each(count, body):
    """Run body() in so many children at once; return their exit statuses."""
    children = []
    for _ in range(count):
        if not (child := os.fork()):
            os._exit(body() or 0)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]


def test_each_call_is_replayed_once_before_it_goes_on():
    order, replayed = mmap.mmap(-1, 8), []

    def body():
        for _ in range(50):
            os.getppid()
            if order[0] != order[1] + 1:
                return 1
            order[1] += 1
        return 0

    def replay(note, _commit):
        replayed.append((note.pid, note.nr))
        order[0] += 1

    pid, status = supervise([nr.GETPPID], body, replay)
    assert status == 0
    assert replayed == [(pid, nr.GETPPID)] * 50


def test_skipped_call_is_not_replayed():
    skipped, replayed = [], []

    def body():
        for _ in range(20):
            os.getppid()
            os.getuid()
        return 0

    def skip(note):
        skipped.append(note.nr)
        return note.nr == nr.GETPPID

    def replay(note, _commit):
        replayed.append(note.nr)

    _, status = supervise([nr.GETPPID, nr.GETUID], body, replay, skip=skip)
    assert status == 0
    assert skipped == [nr.GETPPID, nr.GETUID] * 20
    assert replayed == [nr.GETUID] * 20


class Late(threading.Event):
    """Tells of its state only when what follows that has happened, too."""

    def wait(self, _timeout=None):
        state = self.is_set()
        super().wait(10)
        time.sleep(0.1)
        return state


def test_it_ends_however_late_the_look_after_calls_is():
    pid, listener = filtered([nr.GETPPID], os.getppid)
    supervisor = Supervisor(listener, mmap.mmap(-1, STATE_SIZE), lambda *_: None)
    supervisor.over = Late()
    thread = threading.Thread(target=supervisor.run, daemon=True)
    thread.start()
    os.waitpid(pid, 0)
    thread.join(20)
    assert not thread.is_alive()
    os.close(listener)


@pytest.fixture
def no_look(monkeypatch):
    """However busy the machine is, no call takes long."""
    monkeypatch.setattr("kpfs.mirror.supervisor.LOOK", 60.0)


@pytest.mark.usefixtures("no_look")
def test_short_call_is_made_by_its_receiver():
    threads = []

    def body():
        for _ in range(20):
            os.getppid()
        return 0

    def replay(_note, _commit):
        threads.append(threading.get_ident())

    _, status = supervise([nr.GETPPID], body, replay, may_wait=lambda _note: False)
    assert status == 0
    assert len(threads) == 20
    assert len(set(threads)) == 1


def test_calls_wait_for_nothing_but_the_kernel_and_the_host():
    """Two writes to one file wait for each other: the host has the second wait for the
    first one's request, which the mount serves and steps aside in.
    """
    lock, inode = FairLock(), threading.Lock()

    def body():
        return max(fork_each(4, lambda: [os.getppid() for _ in range(20)] and 0))

    def serve(caller):
        me = threading.get_ident()
        lock.stepping[me] = lock.stepping[caller]
        with lock:
            lock.step_aside(0.0001)
        del lock.stepping[me]

    def replay(_note, _commit):
        with inode:
            mount = threading.Thread(target=serve, args=(threading.get_ident(),))
            mount.start()
            mount.join()

    judges = {"stepping": lock.stepping}
    assert supervise([nr.GETPPID], body, replay, **judges)[1] == 0
    assert not lock.stepping


@pytest.mark.logs("system calls are not mirrored any more")
def test_a_bug_in_the_replayer_does_not_hurt_the_command():
    seen: list[int] = []

    def replay(note, _commit):
        seen.append(note)
        raise RuntimeError("bug")

    body = lambda: len({os.getppid() for _ in range(5)}) - 1  # noqa: E731
    assert supervise([nr.GETPPID], body, replay)[1] == 0
    assert len(seen) == 1, "after a bug nothing is replayed any more"


def test_a_bug_in_the_receiver_does_not_hurt_the_command():
    pid, listener = filtered([nr.GETPPID], lambda: os.getppid() and 0)
    state = mmap.mmap(-1, STATE_SIZE)
    supervisor = Supervisor(listener, state, lambda *_: None, skip=lambda _: 1 // 0 > 0)
    with pytest.raises(ZeroDivisionError):
        supervisor.loop(0)
    assert SLOT.unpack_from(state)[0]  # the report, which would wait for ever
    take_over(listener, state)
    assert os.waitpid(pid, 0)[1] == 0
    os.close(listener)


def test_a_refusal_of_the_guest_is_no_bug():
    def replay(_note, _commit):
        seen.append(1)
        raise KernelError(errno.ESRCH, "no such task")

    seen: list[int] = []
    body = lambda: len({os.getppid() for _ in range(5)}) - 1  # noqa: E731
    assert supervise([nr.GETPPID], body, replay)[1] == 0
    assert len(seen) == 5


def test_an_answer_of_the_replayer_is_all_that_is_made():
    me = os.getpid()
    body = lambda: os.getppid() == 7 and os.getppid() == me  # noqa: E731
    answers = iter((7, None))
    replay = lambda _note, _commit: next(answers)  # noqa: E731
    assert os.waitstatus_to_exitcode(supervise([nr.GETPPID], body, replay)[1]) == 1


def test_nothing_is_made_for_a_caller_that_was_killed():
    seen: list[int] = []

    def replay(note, commit):
        seen.append(commit())
        os.kill(note.pid, 9)
        deadline = time.monotonic() + 5
        while (still := commit()) and time.monotonic() < deadline:
            time.sleep(0.001)
        seen.append(still)
        return 0

    status = supervise([nr.GETPPID], os.getppid, replay)[1]
    assert os.waitstatus_to_exitcode(status) == -9
    assert seen == [True, False]


@pytest.mark.usefixtures("no_look")
def test_end_is_answered_by_its_receiver_if_nothing_waits():
    threads, asked = set(), []

    def body():
        for _ in range(5):
            if not (child := os.fork()):
                os._exit(0)
            os.waitpid(child, 0)
        return 0

    def replay(_note, _commit):
        threads.add(threading.get_ident())

    def settled(note, _busy):
        asked.append(note.pid)
        return True

    judges = {"may_wait": lambda _note: False}
    numbers = [nr.EXIT_GROUP]
    assert supervise(numbers, body, replay, settled, **judges)[1] == 0
    assert len(threads) == 1
    assert len(asked) == len(set(asked)) == 6


@pytest.mark.parametrize("may_wait", [True, False])
def test_many_that_end_at_once_do_not_hold_up_the_others(may_wait):
    """Their parent makes a call while they wait for it: some thread must receive it."""
    came, outcomes = threading.Event(), []

    def body():
        children = []
        for _ in range(2 * SLOTS):
            child = os.fork()
            if not child:
                os._exit(0)
            children.append(child)
        time.sleep(0.05)
        os.getppid()
        for child in children:
            os.waitpid(child, 0)
        return 0

    def replay(note, _commit):
        if note.nr == nr.GETPPID:
            came.set()

    looks: set[int] = set()

    def settled(note, _busy):
        if note.pid not in looks and not may_wait:
            looks.add(note.pid)
            return False
        outcomes.append(came.wait(5))
        return True

    numbers = [nr.GETPPID, nr.EXIT_GROUP]
    judges = {"may_wait": lambda _note: may_wait}
    _, status = supervise(numbers, body, replay, settled, **judges)
    assert status == 0
    assert set(outcomes) == {True}


def test_calls_that_wait_hold_nobody_up():
    """However many they are, up to the slots that there are."""
    many = SLOTS_MAX - SLOTS
    last, answers = threading.Event(), []

    def body():
        return set(fork_each(many + 2, os.getppid)) != {7}

    def rest():
        assert last.wait(10)
        return 7

    def replay(_note, commit):
        assert commit()
        answers.append(rest)
        if len(answers) > many:
            last.set()
            return 7
        return rest

    assert supervise([nr.GETPPID], body, replay)[1] == 0


def test_more_waits_than_there_are_slots():
    many = SLOTS_MAX - SLOTS
    last, answers = threading.Event(), []

    def body():
        def child():  # after EAGAIN it asks again
            return os.getppid() == -errno.EAGAIN and os.getppid() == 7

        return sum(fork_each(many + 1, child)) != 1

    def replay(_note, _commit):
        answers.append(1)
        if len(answers) > many + 1:
            last.set()
            return 7
        return lambda: 8 if last.wait(10) else 0

    assert supervise([nr.GETPPID], body, replay)[1] == 0


@pytest.mark.parametrize("waits", [False, True], ids=["receiving", "not receiving"])
def test_others_move_while_a_call_waits_in_the_host(waits):
    """Another process of the command may serve the file system that it waits for."""
    came = threading.Event()

    def body():
        return sum(fork_each(2 * SLOTS, lambda: os.getuid() and 0))

    many = []

    def replay(note, _commit):
        if note.nr == nr.GETUID:
            many.append(note.pid)
            if len(many) == 2 * SLOTS:
                came.set()
            assert came.wait(10)

    judges = {"may_wait": lambda _note: waits}
    assert supervise([nr.GETUID], body, replay, **judges)[1] == 0


@pytest.mark.parametrize("waits", [False, True], ids=["receiving", "not receiving"])
def test_others_move_while_a_call_keeps_the_kernel_busy(waits):
    """The busy thread steps aside from the kernel's lock as often as it likes."""
    lock, seen = FairLock(), mmap.mmap(-1, 8)

    def child():
        os.getuid()
        os.getppid()
        seen[0] = 1

    def body():
        return sum(fork_each(2, child))

    busy: list[int] = []

    def replay(note, _commit):
        if note.nr == nr.GETUID and not busy:
            busy.append(note.pid)
            with lock:
                end = time.monotonic() + 10
                while not seen[0]:
                    assert time.monotonic() < end
                    lock.step_aside(0.001)
        else:
            with lock:
                pass

    _, status = supervise(
        [nr.GETPPID, nr.GETUID],
        body,
        replay,
        stepping=lock.stepping,
        may_wait=lambda _note: waits,
    )
    assert status == 0
    assert busy
    assert not lock.stepping
