# SPDX-License-Identifier: GPL-2.0-or-later
import os

import pytest


@pytest.fixture
def pipe():
    """The two ends of a pipe."""
    ends = os.pipe()
    yield ends
    for fd in ends:
        os.close(fd)
