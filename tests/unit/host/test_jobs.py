# SPDX-License-Identifier: GPL-2.0-or-later

import os
import signal
import time

import pytest

from kpfs.base.errors import SetupError
from kpfs.base.signals import SignalledError, raised
from kpfs.host import jobs
from tests import harness


def test_each_has_its_status():
    found = {done.name: done.status for done in jobs.run("abc", 2, "cba".index)}
    assert found == {"a": 2, "b": 1, "c": 0}


def test_so_many_at_once(tmp_path):
    def work(name):
        (tmp_path / name).touch()
        together = len(list(tmp_path.iterdir()))
        time.sleep(0.02)
        (tmp_path / name).unlink()
        return together

    assert max(done.status for done in jobs.run("abcdef", 2, work)) <= 2
    assert [done.name for done in jobs.run("abc", 1, lambda _: 0)] == ["a", "b", "c"]


def test_an_error_is_a_status(capfd):
    def work(name):
        raise ValueError(name)

    assert [done.status for done in jobs.run("a", 1, work)] == [1]
    assert "ValueError: a" in capfd.readouterr().err


@pytest.mark.parametrize("words", ["6.1: is damaged", "is damaged"])
def test_an_error_names_its_job_once(words):
    def work(_name):
        raise SetupError(words)

    with pytest.raises(SetupError, match=r"^6\.1: is damaged$"):
        jobs.gathered(["6.1"], work, "asking")


def test_the_others_end_when_nobody_waits(tmp_path):
    def work(name):
        (tmp_path / name).write_text(str(os.getpid()))
        if name == "b":
            signal.pause()
        return 0

    before = harness.children(os.getpid())  # a browser, perhaps
    running = jobs.run("ba", 2, work)
    assert next(running).name == "a"
    del running
    assert harness.children(os.getpid()) == before


def test_those_that_are_told_to_end_clean_up(tmp_path):
    def work(name):
        if name == "b":
            with raised():
                try:
                    (tmp_path / "begun").touch()
                    signal.pause()
                finally:
                    (tmp_path / "cleaned").touch()
        else:
            harness.until((tmp_path / "begun").exists, "the other does not begin")
        return 0

    running = jobs.run("ba", 2, work)
    assert next(running).name == "a"
    del running
    assert (tmp_path / "cleaned").exists()


def test_a_child_of_somebody_else_is_no_job():
    if not (pid := os.fork()):
        os._exit(7)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert [done.name for done in jobs.run("a", 1, lambda _: 0)] == ["a"]


@pytest.mark.parametrize("name", ["fork", "wait"])
def test_a_signal_right_after_a_call_leaves_no_process(monkeypatch, name):
    """A terminal interrupts the processes, too, so that they end at that moment."""
    call = getattr(os, name)

    def interrupted():
        if found := call():  # 0: the new process
            signal.raise_signal(signal.SIGINT)
        return found

    before = harness.children(os.getpid())
    monkeypatch.setattr(os, name, interrupted)
    with pytest.raises(SignalledError), raised():
        list(jobs.run("ab", 2, lambda _: 0))
    assert harness.children(os.getpid()) == before
