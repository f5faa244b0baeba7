# SPDX-License-Identifier: GPL-2.0-or-later
"""The processes that are behind, and those that are forgotten."""

from contextlib import nullcontext

import pytest

from tests.unit.mirror.fakes import PID, FakeTable


@pytest.fixture
def table():
    return FakeTable([])


def test_process_that_has_ended_stays_behind_while_it_has_a_task(table, monkeypatch):
    monkeypatch.setattr("kpfs.mirror.process_table.MEMBERS_MAX", 0)
    for known in (True, False):
        table.known = known
        table.leave_out_change(PID + 1)
        assert table.behind == ({PID + 1} if known else set())
        assert table.changing == set()


@pytest.mark.parametrize("known", [False, True])
def test_process_that_ends_unseen_is_behind_while_it_has_a_task(table, known):
    table.known = known
    table.leave_out(PID)
    table.leave_out_exit(PID)
    assert table.behind == ({PID} if known else set())


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("taken", [False, True])
def test_process_that_has_ended_alone_is_forgotten(table, known, taken):
    """A process that may have a task is not: the task is to end as well."""
    path, table.known = table.fast_path, known
    table.behind.add(PID)
    path.ended[0], path.nr_ended = PID, 1
    with path._lock if taken else nullcontext():
        table.note_ended()
    assert table.behind == ({PID} if known or taken else set())
    assert table.log == [("forget", PID)]
    assert path.nr_ended == 0
