# SPDX-License-Identifier: GPL-2.0-or-later
"""Characters and numbers as the kernel sees them."""

import pytest

from kpfs.engine.trace.kstr import is_digit


@pytest.mark.parametrize("number", range(256))
def test_digits_are_ten(number):
    assert is_digit(chr(number)) == (0x30 <= number <= 0x39)


def test_no_character_is_no_digit():
    assert not is_digit("")
