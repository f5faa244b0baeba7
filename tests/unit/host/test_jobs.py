# SPDX-License-Identifier: GPL-2.0-or-later

import os
import signal
import time

from kpfs.host import jobs


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


def test_the_others_end_when_nobody_waits(tmp_path):
    def work(name):
        (tmp_path / name).write_text(str(os.getpid()))
        if name == "b":
            signal.pause()
        return 0

    running = jobs.run("ba", 2, work)
    assert next(running).name == "a"
    del running
    assert os.WTERMSIG(os.wait()[1]) == signal.SIGTERM
