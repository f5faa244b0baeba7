# SPDX-License-Identifier: GPL-2.0-or-later
"""Fixtures for sessions, which have a process of their own elsewhere."""

import os

import pytest


@pytest.fixture(autouse=True)
def umask(monkeypatch):
    """Leave the umask of these tests' process as it is."""
    monkeypatch.setattr(os, "umask", lambda mask: mask)
