# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of system calls tells what is made.  Tests kpfs.manual.calls."""

from collections import Counter

import pytest

from kpfs.manual import calls
from kpfs.manual.calls import ALWAYS, NEVER, WATCHED
from kpfs.mirror.calls import NOTED, reported

# Linux 6.12 has these numbers; 335 to 423 belong to no architecture
NUMBERS = [*range(335), *range(424, 463)]


def test_each_call_of_x86_64_is_there_once():
    found = Counter(number for row in calls.rows() for number in row.calls)
    assert found == Counter(NUMBERS)


@pytest.mark.parametrize("linux", [False, True], ids=["guest", "linux"])
def test_the_table_says_what_is_made(linux):
    made: dict[int, str] = {}
    for row in calls.rows():
        made |= dict.fromkeys(row.calls, row.linux if linux else row.guest)
    watched = {number for number, when in made.items() if when == WATCHED}
    always = {number for number, when in made.items() if when == ALWAYS}
    assert {number for number in NOTED if made[number] == NEVER} == set()
    assert reported(linux=linux, lazy=True)[0] == watched
    assert reported(linux=linux, lazy=False)[0] == watched | always


def test_each_row_has_a_reason_in_the_page():
    text = calls.page()
    for row in calls.rows():
        assert row.why.endswith(".")
        assert f" | {row.why} |\n" in text
