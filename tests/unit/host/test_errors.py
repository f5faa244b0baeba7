# SPDX-License-Identifier: GPL-2.0-or-later
"""Errors that the user must mend, in one line."""

from kpfs.host.errors import SetupError


def test_cause_and_remedy():
    assert (
        str(SetupError("it rains", "take an umbrella")) == "it rains: take an umbrella"
    )
    assert str(SetupError("it rains")) == "it rains"
