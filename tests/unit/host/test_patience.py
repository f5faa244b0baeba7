# SPDX-License-Identifier: GPL-2.0-or-later
"""Time spent waiting for a CPU does not count as patience."""

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from kpfs.host import patience

US, OTHER = os.getpid(), 1


@pytest.fixture
def looks(monkeypatch):
    """Looks at something that never comes, on a clock that only they move.

    looks.share: what part of the time a process that wants a CPU has one.
    looks.late: how many seconds later than it should a look returns.
    """
    made = SimpleNamespace(now=100.0, share={}, late=0.0)

    def look(step):
        made.now += step + made.late
        return False

    def usage(pid):
        return patience.Usage(pid in made.share, made.share.get(pid, 0) * made.now)

    made.look = look
    monkeypatch.setattr(time, "monotonic", lambda: made.now)
    monkeypatch.setattr(patience, "_usage", usage)
    return made


def ends(looks, seconds):
    assert not patience.comes(OTHER, 1.0, looks.look)
    assert looks.now - 100 == pytest.approx(seconds, rel=0.1)


def test_it_goes_by_the_clock_on_a_quiet_machine(looks):
    ends(looks, 1.0)


def test_running_process_has_its_time(looks):
    looks.share = {OTHER: 1.0}
    ends(looks, 1.0)


@pytest.mark.parametrize("who", [OTHER, US], ids=["other", "us"])
def test_process_waiting_for_a_cpu_has_longer(looks, who):
    looks.share = {OTHER: 1.0} | {who: 0.1}
    ends(looks, 10.0)


def test_our_own_wait_for_a_cpu_does_not_count(looks):
    looks.late = 9 * patience.STEP
    ends(looks, 10.0)


def test_other_runs_while_we_wait_for_a_cpu(looks):
    looks.late = 9 * patience.STEP
    looks.share = {OTHER: 0.5}
    ends(looks, 2.0)


def test_but_not_for_ever(looks):
    looks.share = {OTHER: 0.0}
    ends(looks, patience.MOST)


def test_condition_that_holds_already():
    assert patience.comes(OTHER, 0.0, lambda step: True)


def test_a_process_that_loops():
    with subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) as busy:
        until = time.monotonic() + 20
        while not all(patience._usage(busy.pid)):
            assert time.monotonic() < until
        busy.kill()
    assert patience._usage(busy.pid) == (False, 0)  # it has ended


def test_a_process_that_sleeps():
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as idle:
        until = time.monotonic() + 20
        while patience._usage(idle.pid).wants:
            assert time.monotonic() < until
