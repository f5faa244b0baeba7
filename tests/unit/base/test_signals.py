# SPDX-License-Identifier: GPL-2.0-or-later
"""Signals that end kpfs: at once, or when what they would leave is taken away."""

import os
import signal
import subprocess
import sys

import pytest

from kpfs.base.signals import ENDING, SignalledError, fork, held, raised
from tests import harness

CONTAINER = ("unshare", "--fork", "--pid", "--kill-child")


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_is_raised_once_and_cleaned_up_after(number):
    before = [signal.getsignal(each) for each in ENDING]
    seen = []

    def wait():
        with raised():
            try:
                os.kill(os.getpid(), number)
                seen.append("it goes on")
            finally:
                os.kill(os.getpid(), number)  # as timeout(1) sends it twice
                seen.append("cleaned")

    with pytest.raises(SignalledError) as info:
        wait()
    assert (info.value.number, seen) == (number, ["cleaned"])
    assert [signal.getsignal(each) for each in ENDING] == before


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with raised():
        os.kill(os.getpid(), signal.SIGHUP)
    signal.signal(signal.SIGHUP, before)


def test_signals_wait_until_a_block_has_ended():
    seen = []
    before = signal.signal(signal.SIGHUP, lambda number, _: seen.append(number))
    with held() as mask:
        signal.raise_signal(signal.SIGHUP)
        assert (seen, signal.SIGHUP in mask) == ([], False)
    assert seen == [signal.SIGHUP]
    signal.signal(signal.SIGHUP, before)


FORKS = """
import os
from kpfs.base.signals import SignalledError, fork, raised
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), NUMBER))
try:
    with raised():
        pid = fork()
        if not pid:
            print("it goes on", flush=True)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
finally:
    print("cleaned")
"""


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_at_a_fork_ends_the_new_process_alone(number):
    script = FORKS.replace("NUMBER", str(int(number)))
    done = harness.run(sys.executable, "-c", script, cwd=harness.ROOT)
    assert (done.stdout, done.stderr) == (f"-{int(number)}\ncleaned\n", "")


def test_a_fork_leaves_ignored_signals_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if not (pid := fork()):
        os.kill(os.getpid(), signal.SIGHUP)
        os._exit(7)
    signal.signal(signal.SIGHUP, before)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def ended_by(number, script, *around):
    """The status and the words of a program that is told to end once it is ready."""
    words = [*around, sys.executable, "-c", script]
    with subprocess.Popen(
        words, stdout=-1, stderr=-1, text=True, cwd=harness.ROOT
    ) as p:
        assert p.stdout is not None
        pid = int(p.stdout.readline())
        if around:  # the program is the child of unshare
            (pid,) = harness.children(p.pid)
        os.kill(pid, number)
        _, said = p.communicate(timeout=60)
    return p.returncode, said


AT_START = """
import os, time
from kpfs.__main__ import let_signals_end_us
let_signals_end_us()
print(os.getpid(), flush=True)
time.sleep(99)
"""


@pytest.mark.parametrize("number", ENDING)
def test_until_a_command_is_ready_a_signal_ends_it_without_a_word(number):
    assert ended_by(number, AT_START) == (-number, "")


@pytest.mark.parametrize("number", ENDING)
def test_the_first_process_of_a_container_ends_too(number):
    if harness.run(*CONTAINER, "true").returncode:
        pytest.skip("no pid namespace here")
    assert ended_by(number, AT_START, *CONTAINER) == (128 + number, "")
    script = f"from kpfs.base.signals import end_by; end_by({int(number)})"
    done = harness.run(*CONTAINER, sys.executable, "-c", script, cwd=harness.ROOT)
    assert (done.returncode, done.stderr) == (128 + number, "")


def test_an_ignored_interrupt_stays_ignored_at_the_start():
    """A shell's background commands ignore it."""
    script = AT_START.replace("time.sleep(99)", "os.kill(os.getpid(), 2); print('on')")
    words = "bash", "-c", 'trap "" INT; exec "$@"', "bash", sys.executable, "-c", script
    done = harness.run(*words, cwd=harness.ROOT)
    assert (done.stdout.splitlines()[1:], done.stderr) == (["on"], "")
