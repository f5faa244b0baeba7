# SPDX-License-Identifier: GPL-2.0-or-later
"""Modules that do not come back: each ends, and the files answer or say why not."""

import pytest

from tests.fuzz.lockups import NR_MODULES, PLACES, TIME_MAX, run_case
from tests.modbox import need_compiler

pytestmark = pytest.mark.guest

LIMIT = 0.4  # s
FEW = (0, 2, 6, 10, 13, 14)


@pytest.mark.parametrize("number", FEW)
def test_a_few(number):
    need_compiler()
    outcome = run_case(number, LIMIT, 2)
    assert not outcome.bad, outcome
    assert outcome.seconds < TIME_MAX / 3


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, NR_MODULES, len(PLACES)))
def test_all(first):
    last = min(first + len(PLACES), NR_MODULES)
    outcomes = [run_case(number, LIMIT, 2) for number in range(first, last)]
    assert [o for o in outcomes if o.bad or o.seconds > TIME_MAX / 3] == []


@pytest.mark.slow
@pytest.mark.parametrize("number", FEW)
def test_as_it_is_configured(number):
    outcome = run_case(number, 5.0, 2, live=True)
    assert not outcome.bad, outcome
    assert outcome.seconds < TIME_MAX
