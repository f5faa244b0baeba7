# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel's lock: in turn, and again by its owner."""

import threading
import time

import pytest

from kpfs.base.errors import KernelError
from kpfs.base.lock import PATIENCE, FairLock, Waiter


class Taker(threading.Thread):
    """Takes the lock and notes that it has it; ``waiter`` is how it waits."""

    def __init__(self, lock, log, name):
        super().__init__(name=name, daemon=True)
        self.taken, self.log = lock, log
        self.waiting = threading.Event()

    def run(self):
        try:
            with self.taken, self.taken:
                self.log.append(self.name)
        except KernelError as error:
            self.log.append((self.name, error.errno))


class KnownLock(FairLock):
    """Knows the waiting threads, in their order."""

    def __init__(self):
        super().__init__()
        self.waiters: list[Waiter] = []
        self.wait = self.known_wait

    def known_wait(self, waiter):
        self.waiters.append(waiter)
        waiter.sleep()


@pytest.fixture
def lock():
    return KnownLock()


@pytest.fixture
def log() -> list[object]:
    return []


def start(lock, log, name):
    """Start another thread that waits for the lock."""
    before = len(lock.waiters)
    thread = Taker(lock, log, name)
    thread.start()
    deadline = time.monotonic() + 10
    while len(lock.waiters) == before:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return thread


def test_its_owner_takes_it_again(lock, log):
    with lock:
        with lock:
            pass
        assert lock.turns == 1
        other = start(lock, log, "b")
        assert log == []
    other.join(10)
    assert log == ["b"]
    assert lock.turns == 2


def test_in_the_order_in_which_they_came(lock, log):
    names = [f"t{i}" for i in range(8)]
    with lock:
        threads = [start(lock, log, name) for name in names]
    for thread in threads:
        thread.join(10)
    assert log == names


def test_latecomer_does_not_get_the_lock_first(lock, log):
    """A thread that gives it back and wants it again at once has to wait, too."""
    with lock:
        thread = start(lock, log, "waits")
    with lock:
        assert log == ["waits"]
    thread.join(10)


def test_a_signal_ends_a_wait_that_lasts(lock, log):
    began = time.monotonic()
    with lock:
        threads = [start(lock, log, name) for name in "abc"]
        lock.waiters[1].interrupt()
        threads[1].join(10)
        assert time.monotonic() - began >= PATIENCE
        assert log == [("b", 4)]
    for thread in threads:
        thread.join(10)
    assert log == [("b", 4), "a", "c"]


def test_a_signal_does_not_end_a_wait_that_is_short(lock, log):
    with lock:
        thread = start(lock, log, "a")
        lock.waiters[0].interrupt()
    thread.join(10)
    assert log == ["a"]


def test_who_may_be_refused_is_refused_after_a_time(lock, log):
    with lock:
        threads = [start(lock, log, name) for name in "ab"]
        lock.waiters[1].may_be_refused = True
        lock.refuse_waiting(60)
        assert not threads[1].waiting.wait(0.05)
        assert log == []
        lock.refuse_waiting(0)
        threads[1].join(10)
        assert log == [("b", 11)]
    threads[0].join(10)
    assert log == [("b", 11), "a"]


def test_it_is_taken_in_time_or_not_at_all(lock, log):
    turns = lock.turns
    assert lock.take_within(0)
    assert lock.turns == turns + 1
    found: list[bool] = []
    other = threading.Thread(target=lambda: found.append(lock.take_within(0.01)))
    other.start()
    other.join(10)
    assert found == [False]
    last = start(lock, log, "a")
    lock.__exit__()
    last.join(10)
    assert log == ["a"]
    assert lock.take_within(0)


def test_a_waiter_that_is_woken_and_interrupted():
    waiter = Waiter()
    waiter.interrupt()
    waiter.wake()
    waiter.sleep()
    assert waiter.awake


def test_many_at_once():
    lock, count = FairLock(), [0]

    def work():
        for _ in range(300):
            with lock:
                seen = count[0]
                if seen % 7 == 0:
                    time.sleep(0)
                count[0] = seen + 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert count == [2400]


def test_stepping_aside_lets_all_in_that_wait(lock, log):
    with lock, lock:
        threads = [start(lock, log, name) for name in "ab"]
        lock.step_aside()
        assert log == ["a", "b"]
        assert lock.taken()
        late = start(lock, log, "c")
        assert log == ["a", "b"]  # it is as before
    for thread in (*threads, late):
        thread.join(10)
    assert log == ["a", "b", "c"]
    assert not lock.taken()


def test_nobody_steps_aside_from_a_lock_of_others(lock, log):
    with lock:
        other = threading.Thread(target=lock.step_aside)
        other.start()
        other.join(10)
        assert not other.is_alive()
        assert lock.taken()


def test_what_a_thread_does_when_it_steps_aside(lock, log):
    class Told:
        def aside(self):
            log.append("aside")

    with lock:
        lock.stepping[threading.get_ident()] = Told()
        lock.step_aside()
        thread = start(lock, log, "other")
        lock.step_aside()
        log.append("mine")
    thread.join(10)
    assert log == ["aside", "aside", "other", "mine"]


def test_a_thread_hands_on_its_work_before_it_has_the_lock_for_long(lock, log):
    class Told:
        def aside(self):
            log.append("aside")

    with lock:
        lock.hand_on()
        lock.stepping[threading.get_ident()] = Told()
        lock.hand_on()
        assert log == ["aside"]
    assert log == ["aside"]
