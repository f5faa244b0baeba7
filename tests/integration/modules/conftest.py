# SPDX-License-Identifier: GPL-2.0-or-later
import pytest

from tests.modbox import Box


@pytest.fixture
def box():
    box = Box()
    yield box
    box.close()
