# SPDX-License-Identifier: GPL-2.0-or-later
"""Digits and numbers.  Recorded cases have the values of kprobes/enabled."""

import errno

import pytest

from kpfs.base.errors import KernelError
from kpfs.engine.kstrtox import (
    is_digit,
    kstrtol,
    kstrtoul_from_user,
)


def test_digits_are_ten():
    assert [*filter(is_digit, ("", *map(chr, range(256))))] == [*"0123456789"]


def outcome(function, *args):
    try:
        return function(*args)
    except KernelError as e:
        return errno.errorcode[e.errno]


@pytest.mark.parametrize(
    ("data", "base", "value"),
    [
        (b"0", 10, 0),
        (b"01\n", 10, 1),
        (b"+7", 10, 7),
        (b"0x10", 10, "EINVAL"),
        (b"0x10", 0, 16),
        (b"0X1f", 16, 31),
        (b"010", 0, 8),
        (b"0x", 0, "EINVAL"),
        (b"-1", 10, "EINVAL"),
        (b"1 ", 10, "EINVAL"),
        (b" 1", 10, "EINVAL"),
        (b"1\n\n", 10, "EINVAL"),
        (b"1\0junk", 10, 1),
        (b"", 10, "EINVAL"),
        (b"++1", 10, "EINVAL"),
        (b"1" * 63, 10, "ERANGE"),
        (b"0" * 70, 10, 0),
        (b"18446744073709551615", 10, (1 << 64) - 1),
        (b"18446744073709551616", 10, "ERANGE"),
    ],
)
def test_kstrtoul(data, base, value):
    assert outcome(kstrtoul_from_user, data, base) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-0x10", -16),
        ("-08", "EINVAL"),
        ("--1", "EINVAL"),
        ("9223372036854775807", (1 << 63) - 1),
        ("9223372036854775808", "ERANGE"),
        ("-9223372036854775808", -(1 << 63)),
        ("-9223372036854775809", "ERANGE"),
    ],
)
def test_kstrtol(text, value):
    assert outcome(kstrtol, text) == value
