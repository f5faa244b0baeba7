# SPDX-License-Identifier: GPL-2.0-or-later
"""Some of the modules of ``scripts/campaign modules``, which do not come back.

Each ends, and the files answer or say why not.
"""

import pytest

from tests.fuzz.lockups import TIME_MAX, run_case
from tests.modbox import need_compiler

pytestmark = pytest.mark.guest

LIMIT = 0.4  # s
# these need seconds each; integration/modules/test_lockup.py has such loops, too
LONG = [pytest.param(number, marks=pytest.mark.long) for number in (0, 2, 10)]
FEW = (6, 13, 14, *LONG)


@pytest.mark.parametrize("number", FEW)
def test_a_few(number):
    need_compiler()
    outcome = run_case(number, LIMIT, 2)
    assert not outcome.bad, outcome
    assert outcome.seconds < TIME_MAX / 3
