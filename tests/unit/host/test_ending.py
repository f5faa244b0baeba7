# SPDX-License-Identifier: GPL-2.0-or-later
"""Signals that end this process while it waits for an answer that may never come."""

import os
import signal
import threading
from functools import partial

import pytest

from kpfs.base.signals import ENDING
from kpfs.host.ending import ended_by_signals
from tests import harness


@pytest.fixture
def heard():
    """The signals that handlers of this process have got."""
    numbers = []
    before = {
        number: signal.signal(number, lambda number, _: numbers.append(number))
        for number in ENDING
    }
    yield numbers
    for number, action in before.items():
        signal.signal(number, action)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_ends_the_wait_and_then_does_what_it_does(heard, number):
    reading, writing = os.pipe()
    with ended_by_signals(partial(os.close, writing)):
        os.kill(os.getpid(), number)
        assert os.read(reading, 1) == b""
        assert heard == []
    assert heard == [number]
    os.close(reading)


def test_a_signal_is_not_lost_though_the_wait_fails(heard):
    def fail():
        with ended_by_signals(lambda: None):
            os.kill(os.getpid(), signal.SIGHUP)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert heard == [signal.SIGHUP]


def test_an_ignored_signal_stays_ignored(heard):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    ended = []
    with ended_by_signals(lambda: ended.append(1)):
        os.kill(os.getpid(), signal.SIGHUP)
    assert (heard, ended) == ([], [])
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def test_nothing_is_left_of_a_wait(heard):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    descriptors = os.listdir("/proc/self/fd")
    tasks = set(os.listdir("/proc/self/task"))
    with ended_by_signals(lambda: None):
        pass
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    assert os.listdir("/proc/self/fd") == descriptors
    harness.until(  # Linux shows a thread for a moment after it was joined
        lambda: set(os.listdir("/proc/self/task")) <= tasks, "a thread goes on"
    )
    os.kill(os.getpid(), signal.SIGTERM)
    assert heard == [signal.SIGTERM]


@pytest.mark.parametrize("at", [0, 1], ids=["begins", "ends"])
def test_a_signal_is_not_lost_while_the_wait_begins_or_ends(heard, monkeypatch, at):
    calls: list[object] = []
    change = signal.signal

    def come(number, action):
        calls.append(number)
        before = change(number, action)
        if len(calls) == 1 + at * len(ENDING):
            signal.pthread_kill(threading.get_ident(), number)
        return before

    monkeypatch.setattr(signal, "signal", come)
    with ended_by_signals(lambda: None):
        pass
    assert len(calls) == 2 * len(ENDING)
    assert heard == [ENDING[0]]
