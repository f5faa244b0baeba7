# SPDX-License-Identifier: GPL-2.0-or-later
"""Many clients at once: what each did is so, and nothing is torn."""

import pytest

from tests.fuzz import load

pytestmark = [pytest.mark.fuse, pytest.mark.guest]


@pytest.mark.parametrize(
    ("clients", "seconds"), [(10, 1), pytest.param(64, 30, marks=pytest.mark.slow)]
)
def test_many_clients(mount, clients, seconds):
    report = load.run(mount, clients, seconds, load.ALL_KINDS)
    assert report.wrong == []
    assert set(report.kinds) == set(load.ALL_KINDS)
    assert all(kind.times for kind in report.kinds.values()), report
    assert (mount / "tracing/kprobe_events").read_text() == ""
    assert (mount / "kprobes/list").read_text() == ""


def test_a_wrong_answer_is_told(mount, monkeypatch):
    monkeypatch.setattr(load, "define", lambda *_: None)
    report = load.run(mount, 2, 0.2, ["toggle", "list"])
    assert len(report.wrong) == 1
    assert "FileNotFoundError" in report.wrong[0]
    assert report.lines()[-1].startswith("  wrong: toggle 0: ")
