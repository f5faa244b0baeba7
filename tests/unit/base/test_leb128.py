# SPDX-License-Identifier: GPL-2.0-or-later
"""Numbers of variable length; the examples are those of DWARF 5, section 7.6."""

import pytest

from kpfs.base.leb128 import read_sleb, read_uleb


@pytest.mark.parametrize(
    ("code", "unsigned", "signed"),
    [
        ("02", 2, 2),
        ("7f", 127, -1),
        ("8001", 128, 128),
        ("8101", 129, 129),
        ("b964", 12857, -3527),
        ("ff00", 127, 127),
        ("80ff7e", 2080640, -16512),
    ],
)
def test_numbers(code, unsigned, signed):
    data = b"\xff" + bytes.fromhex(code) + b"\xff"
    assert read_uleb(data, 1) == (unsigned, len(data) - 1)
    assert read_sleb(data, 1) == (signed, len(data) - 1)


def test_one_that_is_cut_short():
    with pytest.raises(IndexError):
        read_uleb(b"\x80", 0)
