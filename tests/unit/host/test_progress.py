# SPDX-License-Identifier: GPL-2.0-or-later
"""The signs of progress during a long wait."""

import re
import sys

from kpfs.host import progress
from tests.harness import ROOT
from tests.terminal import Terminal

WAITS = """
import sys
from kpfs.host import progress
progress.PATIENCE = {patience}
with progress.waiting_for("doing it"):
    {block}
print("end")
"""


def program(patience, block):
    words = [sys.executable, "-c", WAITS.format(patience=patience, block=block)]
    return Terminal(words, PYTHONPATH=str(ROOT))


def test_at_a_terminal():
    with program(0.01, "sys.stdin.readline()") as terminal:
        terminal.until("kpfs: doing it ...")
        terminal.type("\n")
        terminal.until("end")


def test_nothing_is_said_that_is_soon_over():
    with program(60, "pass") as terminal:
        assert "kpfs" not in terminal.until("end")


def test_nothing_is_said_elsewhere(monkeypatch, capsys):
    monkeypatch.setattr(progress, "PATIENCE", 0)
    with progress.waiting_for("doing it"):
        pass
    assert capsys.readouterr() == ("", "")


DRAWS = """
from kpfs.host.progress import bar, draw
draw("a name that is longer than a row " * 5, bar(1, 4))
draw("short", bar(4, 4))
draw("")
print("end")
"""


def test_a_line_fits_the_terminal():
    words = [sys.executable, "-c", DRAWS]
    with Terminal(words, PYTHONPATH=str(ROOT)) as terminal:
        shown = terminal.until("end")
    first, second, _ = re.split(r"(?<=%)", shown)
    assert first.startswith("a name")
    assert first.endswith("[#####               ]  25 %")
    assert len(first) < 100
    assert second == "short [####################] 100 %"
