# SPDX-License-Identifier: GPL-2.0-or-later
"""Patterns of function names."""

import fnmatch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kpfs.engine.trace.func.glob import glob


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("vfs_read", "vfs_read", True),
        ("vfs_read", "vfs_readv", False),
        ("vfs_*", "vfs_", True),
        ("*read", "vfs_read", True),
        ("*_*", "vfs_read", True),
        ("**", "", True),
        ("v?s", "vfs", True),
        ("v?s", "vs", False),
        ("vfs?", "vfs", False),
        ("[u-w]fs", "vfs", True),
        ("[!u-w]fs", "vfs", False),
        ("[]x]", "]", True),
        ("[x-]", "-", True),
        ("[vx", "[vx", True),
        ("[", "[", True),
        ("\\*", "*", True),
        ("\\*", "x", False),
        ("a\\", "a", True),
        ("*a*b", "aabab", True),
        ("*a*b", "aaba", False),
    ],
)
def test_matches(pattern, name, fits):
    assert glob(pattern)(name) is fits


@settings(deadline=None)  # how busy the machine is does not matter
@given(st.text("ab*?", max_size=8), st.text("ab", max_size=8))
def test_as_fnmatch(pattern, name):
    assert glob(pattern)(name) is fnmatch.fnmatchcase(name, pattern)


def test_a_pattern_of_many_parts_does_not_hang():
    assert not glob("*a" * 300)("a" * 60 + "b")
    assert not glob("*a" * 40 + "c")("a" * 60)
