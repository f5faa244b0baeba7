# SPDX-License-Identifier: GPL-2.0-or-later
"""A thread that keeps the kernel's lock and waits is named; others are not."""

import threading
import time

import pytest

from kpfs.base.lock import FairLock
from kpfs.host import stuck
from tests import harness


@pytest.fixture
def lock():
    return FairLock()


@pytest.fixture
def told(lock, monkeypatch):
    """Return what is told of the lock, looked at a hundred times as often."""
    monkeypatch.setattr(stuck, "LOOK", 0.01)
    lines: list[str] = []
    stuck.LockWatch(lock, lines.append).start()
    return lines


def work(lock, does):
    """Have a thread keep the lock while it does something, and another wait for it."""

    def keep():
        with lock:
            kept.set()
            does()

    def want():
        with lock:
            pass

    kept = threading.Event()
    owner = threading.Thread(target=keep, name="owner")
    waiting = threading.Thread(target=want)
    owner.start()
    kept.wait()
    waiting.start()
    return owner, waiting


def end(threads):
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def test_thread_that_waits_with_the_lock_is_named(lock, told):
    done = threading.Event()
    threads = work(lock, done.wait)
    harness.until(lambda: told, "nobody is told")
    done.set()
    end(threads)
    (line,) = told
    assert line.startswith("the kernel stands still: thread owner has waited for ")
    assert "s in threading.wait()" in line


def steps_aside(lock):
    lock.step_aside(0.001)


def gives_signs(lock):
    time.sleep(0.001)
    lock.refuse_waiting(60)


def computes(_lock):
    sum(range(1000))


@pytest.mark.parametrize("does", [steps_aside, gives_signs, computes])
def test_thread_that_does_something_is_not(lock, told, does):
    over = time.monotonic() + 3 * stuck.LOOKS * stuck.LOOK

    def until_over():
        while time.monotonic() < over:
            does(lock)

    end(work(lock, until_over))
    assert told == []


def test_owner_for_whom_nobody_waits_is_not(lock, told):
    with lock:
        time.sleep(3 * stuck.LOOKS * stuck.LOOK)
    assert told == []
