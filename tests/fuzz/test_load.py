# SPDX-License-Identifier: GPL-2.0-or-later
"""Many clients at once: what each did is so, and nothing is torn.

``scripts/campaign load`` has more of them, for longer.
"""

import pytest

from tests import harness
from tests.fuzz import load

pytestmark = [pytest.mark.fuse, pytest.mark.guest]


def test_many_clients(mount):
    report = load.run(mount, load.mixed(10, load.ALL_KINDS), 1)
    assert report.wrong == []
    assert set(report.kinds) == set(load.ALL_KINDS)
    assert all(kind.times for kind in report.kinds.values()), report
    assert (mount / "tracing/kprobe_events").read_text() == ""
    assert (mount / "kprobes/list").read_text() == ""


@pytest.mark.long
@pytest.mark.parametrize("switch", ["disarm", "optimize"])
def test_32_clients_while_one_turns_a_switch(mount, switch):
    kinds = load.under_a_switch(32, switch)
    report = load.run(mount, kinds, 2, settled=True)
    assert report.wrong == []
    assert all(kind.fewest for kind in report.kinds.values()), report
    assert harness.alive(harness.daemon_of(mount))


def test_a_wrong_answer_is_told(mount, monkeypatch):
    monkeypatch.setattr(load, "define", lambda *_, **__: None)
    report = load.run(mount, ["toggle", "list"], 0.2)
    assert len(report.wrong) == 1
    assert "FileNotFoundError" in report.wrong[0]
    assert report.lines()[-1].startswith("  wrong: toggle 0: ")
