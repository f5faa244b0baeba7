# SPDX-License-Identifier: GPL-2.0-or-later
"""Instructions of different sizes, one behind the other."""

import pytest

from kpfs.engine.listing import ends_whole, instructions


def first(raw):
    return raw[0]


@pytest.mark.parametrize(
    ("code", "found", "whole"),
    [
        (b"", [], True),
        (b"\2a\1\3bc", [(0, b"\2a"), (2, b"\1"), (3, b"\3bc")], True),
        (b"\1\4a", [(0, b"\1"), (1, b"\4a")], False),
    ],
)
def test_the_last_one_may_be_cut_short(code, found, whole):
    assert list(instructions(code, first)) == found
    assert ends_whole(code, first) == whole
