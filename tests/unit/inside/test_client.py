# SPDX-License-Identifier: GPL-2.0-or-later
"""Signals to the local end of a command; e2e/test_inside.py has the rest."""

import signal
import sys

import pytest

from kpfs.inside import client
from tests import harness

# the other end is a child, which knows what this end has read
PROGRAM = r"""
import array, fcntl, os, signal, socket, sys, termios, time
from kpfs.inside import client

client.PATIENCE = client.SOON = {patience}
ours, theirs = socket.socketpair()
parent = os.getpid()

def tell(text):
    theirs.sendall(text + b"\n")
    left = array.array("i", (1,))
    while left[0]:
        fcntl.ioctl(theirs, termios.TIOCOUTQ, left)

if os.fork() == 0:
    ours.close()
    tell(b'{{"begun": %d}}' % os.getpid())
    {script}
    os._exit(0)
theirs.close()
print(client.Client(ours).run())
"""
RUNS = "tell(b'{\"running\": true}')"
TERM = "os.kill(parent, signal.SIGTERM)"
HEAR = "assert b'\"signal\": 15' in theirs.recv(100)"
PASS = "tell(b'{\"passed\": 15}')"
END = 'tell(b\'{"status": 3, "why": ""}\')'
STAY = "theirs.recv(100)"  # until this end is closed


def run(*script, patience=60.0):
    text = PROGRAM.format(patience=patience, script="; ".join(script))
    return harness.run(sys.executable, "-c", text, cwd=harness.ROOT)


def test_a_signal_before_the_command_runs_ends_it():
    done = run(TERM, STAY)
    assert (done.stdout, done.stderr) == (f"{128 + signal.SIGTERM}\n", "")


def test_a_kernel_that_does_not_take_a_signal_is_ended():
    done = run(RUNS, TERM, HEAR, STAY, patience=0.1)
    assert done.stdout == f"{128 + signal.SIGTERM}\n"
    assert done.stderr == "kpfs: the kernel does not take SIGTERM: ended\n"


def test_a_kernel_that_does_not_take_a_signal_is_ended_by_a_second_one():
    done = run(RUNS, TERM, HEAR, TERM, STAY)
    assert done.stdout == f"{128 + signal.SIGTERM}\n"
    assert done.stderr == "kpfs: the kernel does not take SIGTERM: ended\n"


def test_a_command_may_take_long_to_end():
    done = run(RUNS, TERM, HEAR, PASS, "time.sleep(0.4)", END, patience=0.1)
    assert (done.stdout, done.stderr) == ("3\n", "")


@pytest.mark.parametrize("script", [(), (RUNS,)])
def test_a_process_that_is_killed_is_told(script):
    done = run(*script)
    assert "the process that runs the kernel was killed" in done.stderr


def test_no_program_waits_for_fakeroot_of_the_host(monkeypatch):
    monkeypatch.setenv("FAKEROOTKEY", "1")
    monkeypatch.setenv("KEPT", "2")
    environment = client.request_of(["true"], []).environment
    assert ("FAKEROOTKEY" in environment, environment["KEPT"]) == (False, "2")
