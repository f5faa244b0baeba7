# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said while somebody waits."""

import sys

import pytest

from kpfs.host import progress
from tests.harness import ROOT
from tests.terminal import Terminal

WAITS = """
import time
from kpfs.host import progress
progress.PATIENCE = {patience}
with progress.waiting_for("doing it"):
    time.sleep(0.3)
print("end")
"""


@pytest.mark.parametrize(("patience", "said"), [(0.01, True), (60, False)])
def test_at_a_terminal(patience, said):
    program = WAITS.format(patience=patience)
    settings = {"PYTHONPATH": str(ROOT)}
    with Terminal([sys.executable, "-c", program], **settings) as terminal:
        shown = terminal.until("end")
    assert ("kpfs: doing it ..." in shown) == said


def test_nothing_is_said_elsewhere(monkeypatch, capsys):
    monkeypatch.setattr(progress, "PATIENCE", 0)
    with progress.waiting_for("doing it"):
        pass
    assert capsys.readouterr() == ("", "")
