# SPDX-License-Identifier: GPL-2.0-or-later
import pytest

from tests.unit.engine.trace.fakes import Trace


@pytest.fixture
def trace():
    return Trace()
