# SPDX-License-Identifier: GPL-2.0-or-later
import pytest

from tests.fake import new_state


@pytest.fixture
def st(machine):
    """The engine on the machine of the test."""
    return new_state(machine)
