# SPDX-License-Identifier: GPL-2.0-or-later
"""Loggers that import logging when there is something to say."""

import logging
import subprocess
import sys

from kpfs.base.log import Log
from tests.harness import ROOT


def test_logger_has_the_name(caplog):
    log = Log("kpfs.some.where")
    with caplog.at_level(logging.DEBUG):
        log.debug("%d of %s", 3, "four")
        try:
            raise ValueError("bad")
        except ValueError:
            log.info("it failed", exc_info=True)
    first, second = caplog.records
    assert (first.name, first.levelname) == ("kpfs.some.where", "DEBUG")
    assert first.getMessage() == "3 of four"
    assert second.exc_info[0] is ValueError


def test_a_log_begins_with_its_first_message(caplog, monkeypatch):
    begun = []
    monkeypatch.setattr(Log, "begin", lambda: begun.append(len(caplog.records)))
    monkeypatch.setattr(Log, "debugs", False)
    log = Log("kpfs.some.where")
    with caplog.at_level(logging.DEBUG):
        log.debug("nobody wants this")
        assert not begun
        log.info("but this")
    assert begun == [0]
    assert [record.getMessage() for record in caplog.records] == ["but this"]


def test_a_kernel_boots_without_what_it_does_not_need():
    program = """
import sys
import kpfs
with kpfs.Kernel():
    pass
print(*{"logging", "capstone", "kpfs.fs.node", "kpfs.guest.running.backtrace"}
      & set(sys.modules))
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
