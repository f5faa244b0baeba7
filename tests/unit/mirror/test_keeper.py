# SPDX-License-Identifier: GPL-2.0-or-later
"""The command goes on whatever becomes of the supervisor of its system calls."""

import mmap
import os
import select
import signal
import socket
import time

import pytest

from kpfs.base import syscall_numbers as nr
from kpfs.host import hints
from kpfs.mirror import keeper, seccomp
from kpfs.mirror.keeper import (
    COMMITTED,
    GAVE_UP,
    SLOT,
    STATE_SIZE,
    WAITS,
    SupervisorWatch,
)
from tests.there import there
from tests.unit.mirror.test_seccomp import filtered

CALLS = 20


def command():
    """Makes calls that wait for an answer: its exit status."""
    mine = {os.getppid() for _ in range(CALLS)}
    return 0 if len(mine) == 1 else 1


class Scene:
    """A command under a filter, a process in the supervisor's place, a keeper."""

    def __init__(self):
        self.command, listener = filtered([nr.GETPPID], command)
        self.supervisor = os.fork()
        if not self.supervisor:
            os.close(listener)
            signal.pause()
            os._exit(0)
        ours, theirs = socket.socketpair()
        self.hints = hints.new()
        where = self.supervisor, "/nowhere", self.hints
        self.keeper = keeper.start(listener, theirs, *where)
        os.close(listener)
        _, fds, _, _ = socket.recv_fds(ours, 1, 2)
        self.listener, shared = fds
        self.state = mmap.mmap(shared, STATE_SIZE)
        os.close(shared)
        ours.close()
        theirs.close()
        self.alive = {self.supervisor, self.command}

    def end_supervisor(self):
        os.kill(self.supervisor, signal.SIGKILL)
        os.waitpid(self.supervisor, 0)
        self.alive.discard(self.supervisor)

    def finish(self):
        """The command's status; the keeper must have ended after it."""
        status = os.waitpid(self.command, 0)[1]
        self.alive.discard(self.command)
        os.close(self.listener)
        assert os.waitpid(self.keeper, 0)[1] == 0
        self.told = hints.read(self.hints, failed=False)
        os.close(self.hints)
        if self.alive:
            self.end_supervisor()
        return status


@pytest.fixture
def scene():
    yield (scene := Scene())
    for pid in scene.alive:  # a test has failed
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_it_ends_with_the_command(scene):
    for _ in range(CALLS):
        note = there(seccomp.receive(scene.listener))
        seccomp.let_go_on(scene.listener, note.id)
    assert scene.finish() == 0


def test_the_supervisor_dies_before_it_receives(scene):
    scene.end_supervisor()
    assert scene.finish() == 0
    assert scene.told == []


@pytest.mark.parametrize("shown", [True, False])
def test_the_supervisor_dies_with_a_report_in_work(scene, shown):
    """Say which, if it came to that."""
    first = there(seccomp.receive(scene.listener))
    SLOT.pack_into(scene.state, SLOT.size, first.id, time.monotonic_ns(), 1)
    if not shown:
        seccomp.let_go_on(scene.listener, first.id)
        seccomp.receive(scene.listener)
    scene.end_supervisor()
    assert scene.finish() == 0


def test_the_supervisor_gives_up(scene):
    """The user is told, and what the supervisor still receives is not made."""
    SLOT.pack_into(scene.state, 0, 0, 0, GAVE_UP)
    assert scene.finish() == 0
    assert scene.told == [keeper.STUCK_LINE]
    assert scene.state[keeper.TAKEN_OVER_AT]


def committed_and_stuck(scene):
    """The supervisor gives up with a call that it is committed to; that call."""
    first = there(seccomp.receive(scene.listener))
    SLOT.pack_into(scene.state, SLOT.size, first.id, COMMITTED, 1)
    SLOT.pack_into(scene.state, 0, 0, 0, GAVE_UP)
    time.sleep(2 * keeper.TICK)
    return first


def test_a_stuck_supervisor_answers_what_it_is_committed_to(scene):
    first = committed_and_stuck(scene)
    assert seccomp.let_go_on(scene.listener, first.id)
    assert scene.finish() == 0


def test_a_stuck_supervisor_that_dies_answers_nothing(scene):
    first = committed_and_stuck(scene)
    assert seccomp.is_valid(scene.listener, first.id)
    scene.end_supervisor()
    assert scene.finish() == 0


class Clock:
    def __init__(self, monkeypatch):
        self.now = 100.0
        self.reports = False
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(seccomp, "has_reports", lambda _listener: self.reports)
        self.state = mmap.mmap(-1, STATE_SIZE)
        self.watch = SupervisorWatch(-1, self.state)

    def stuck_after(self, seconds):
        self.now += seconds
        return self.watch.is_stuck()

    def show(self, slot, begin, received):
        SLOT.pack_into(self.state, slot * SLOT.size, 7, int(begin * 1e9), received)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def test_an_idle_supervisor_is_not_stuck(clock):
    assert not clock.stuck_after(0)
    assert not clock.stuck_after(1000)


def test_a_report_in_work_for_too_long(clock):
    clock.show(0, 0, 3)
    clock.show(2, clock.now, 5)
    assert not clock.stuck_after(keeper.PATIENCE - 1)
    assert clock.stuck_after(2)


def test_a_report_that_takes_as_long_as_it_must(clock):
    SLOT.pack_into(clock.state, 0, 7, COMMITTED, 3)
    assert not clock.stuck_after(0)
    assert not clock.stuck_after(100 * keeper.PATIENCE)


def test_others_wait_for_a_report_that_takes_as_long_as_it_must(clock):
    SLOT.pack_into(clock.state, 0, 7, COMMITTED, 3)
    clock.show(1, clock.now, 5)
    clock.reports = True
    assert not clock.stuck_after(2 * keeper.PATIENCE)
    assert not clock.stuck_after(2 * keeper.PATIENCE)


def test_nobody_waits_for_one_that_waits(clock):
    SLOT.pack_into(clock.state, 0, 7, WAITS, 3)
    assert not clock.stuck_after(2 * keeper.PATIENCE)
    clock.show(1, clock.now, 5)
    assert clock.stuck_after(2 * keeper.PATIENCE)


def test_a_report_that_nobody_receives(clock):
    clock.show(0, 0, 3)
    assert not clock.stuck_after(0)
    clock.reports = True
    assert not clock.stuck_after(1)
    assert not clock.stuck_after(keeper.PATIENCE - 1)
    clock.show(0, 0, 4)
    assert not clock.stuck_after(2), "it received another"
    assert not clock.stuck_after(1)
    assert clock.stuck_after(keeper.PATIENCE + 1)


def test_calls_wait_for_a_debugger(clock):
    clock.show(0, clock.now, 3)
    clock.reports = True
    keeper.suspend(clock.state, True)
    assert not clock.stuck_after(10 * keeper.PATIENCE)
    assert not clock.stuck_after(10 * keeper.PATIENCE)
    keeper.suspend(clock.state, False)
    assert not clock.stuck_after(keeper.PATIENCE - 1)
    assert clock.stuck_after(2)


def test_memfd_create_is_denied(monkeypatch):
    def denied(_name):
        raise PermissionError

    monkeypatch.setattr(os, "memfd_create", denied)
    memory = keeper._memory()
    os.ftruncate(memory, keeper.STATE_SIZE)
    with mmap.mmap(memory, keeper.STATE_SIZE) as state:
        assert set(state[:]) == {0}
    os.close(memory)


def test_the_runner_dies_before_it_has_given_the_listener_on():
    """Nobody answers then, and the command is not to wait for it."""
    there, theirs = socket.socketpair()
    calls = keeper.Filter(there, os.getpid(), "/nowhere", [3, nr.GETPPID])
    child = os.fork()
    if not child:
        try:
            calls.install()
            os.getppid()  # ENOSYS
        finally:
            os._exit(7)
    calls.commands.close()
    assert calls.ours.recv(len(keeper.READY)) == keeper.READY
    assert select.select([calls.ours], [], [], 10)[0]  # there is the listener
    calls.ours.close()
    until = time.monotonic() + 10
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("it waits for ever")
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(ended[1]) == 7
    there.close()
    theirs.close()
