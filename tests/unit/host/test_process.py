# SPDX-License-Identifier: GPL-2.0-or-later
"""Processes and threads as /proc shows them."""

import os
import sys
import threading

import pytest

from kpfs.base import syscall_numbers as nr
from kpfs.host import process
from tests import harness

X86_64 = os.uname().machine == "x86_64"


@pytest.mark.skipif(not X86_64, reason="another number of read(2)")
def test_the_call_that_a_thread_sleeps_in():
    """One that is on its way there is waited for."""
    source, target = os.pipe()
    ready = threading.Semaphore(0)

    def read():
        ready.release()
        os.read(source, 5)

    thread = threading.Thread(target=read)
    thread.start()
    ready.acquire()
    tid = thread.native_id or 0
    try:
        while (found := process.system_call(tid))[0] != nr.READ:
            pass
        assert found[1][0] == source
        assert found[1][2] == 5
        assert len(found[1]) == 6
    finally:
        os.close(target)
        thread.join()
        os.close(source)


def test_a_thread_that_runs_is_in_no_call(monkeypatch):
    monkeypatch.setattr(process, "SLEEP_TIMEOUT", 0)
    assert process.system_call(1 << 30) == (-1, ())
    stop = False

    def spin():
        while not stop:
            pass

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        while process.system_call(thread.native_id or 0) != (-1, ()):
            pass
    finally:
        stop = True
        thread.join()


def test_flags_of_a_descriptor():
    source, target = os.pipe2(os.O_NONBLOCK)
    me = os.getpid()
    flags = process.descriptor_flags(me, target)
    assert flags & (os.O_NONBLOCK | os.O_ACCMODE) == os.O_NONBLOCK | os.O_WRONLY
    os.close(source)
    os.close(target)
    assert process.descriptor_flags(me, target) == -1


def test_memory_that_was_freed_is_given_back():
    """A process of its own, as others' heaps are of any size."""
    done = harness.run(sys.executable, "-c", GROWS, cwd=harness.ROOT)
    assert done.returncode == 0, done.stderr


GROWS = """
import threading
from kpfs.host.process import GROWN, HeapTrimmer, _resident

MUCH = 3 * GROWN
heap, kept, goes_on = HeapTrimmer(), [], threading.Event()

def grow():
    blocks = [bytearray(5000) for _ in range(MUCH // 5000)]
    kept.append(bytearray(5000))  # above them, so that the heap does not end there
    del blocks
    goes_on.wait()

threads = [threading.Thread(target=grow, daemon=True) for _ in range(2)]
for each in threads:
    each.start()
while len(kept) < 2:
    pass
full = _resident()
heap.look()
assert _resident() < full - MUCH, (full, _resident())
small = _resident()
heap.look()  # has not grown since
assert abs(_resident() - small) < GROWN
held = [[bytearray(5000) for _ in range(MUCH // 5000)] for _ in range(2)]
above = bytearray(5000)
full = _resident()
heap.look(users=(1, 2))
held.pop()
heap.gone(7)  # did not use it
assert _resident() > full - GROWN
heap.gone(1)
assert _resident() < full - MUCH // 2, (full, _resident())
full = _resident()
held.pop()
heap.gone(2)
assert _resident() < full - MUCH // 2, (full, _resident())
goes_on.set()
"""
