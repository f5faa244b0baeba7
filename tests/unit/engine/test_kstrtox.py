# SPDX-License-Identifier: GPL-2.0-or-later
"""Characters, and values as recorded from Linux 6.1 (kprobes/enabled, the sysctl)."""

import errno

import pytest

from kpfs.base.errors import KernelError
from kpfs.engine.kstrtox import (
    is_digit,
    kstrtobool_from_user,
    kstrtol,
    kstrtoul_from_user,
    proc_dointvec_minmax,
)


def test_digits_are_ten():
    assert [*filter(is_digit, ("", *map(chr, range(256))))] == [*"0123456789"]


def outcome(function, *args):
    try:
        return function(*args)
    except KernelError as e:
        return errno.errorcode[e.errno]


@pytest.mark.parametrize(
    ("data", "value"),
    [(v, True) for v in (b"1", b"y", b"YES", b"t", b"T\n", b"on", b"oN", b"10")]
    + [(v, False) for v in (b"0", b"n", b"N\0\0", b"false", b"of", b"OFF", b"0x1")]
    + [(v, "EINVAL") for v in (b"", b"\n", b" 1", b"2", b"o", b"ox", b"\0", b"\xff")]
    + [(v, "EINVAL") for v in (b"-1", b"+1", b"o\0", b"o1", b"a", b"9")],
)
def test_kstrtobool(data, value):
    assert outcome(kstrtobool_from_user, data) == value


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


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"0", (0, 1)),
        (b"-0", (0, 2)),
        (b" \t 0 \n", (0, 6)),
        (b"1 0", (1, 2)),
        (b"1 abc", (1, 2)),
        (b"0\n0", (0, 2)),
        (b"0x1\n", (1, 4)),
        (b"01", (1, 2)),
        (b"0" * 20, (0, 20)),
        (b"0" * 21, "EINVAL"),
        (b"0" * 5000, "EINVAL"),
        (b"0" + b" " * 10, (0, 11)),
        (b"0\v", "EINVAL"),
        (b"\v0", (0, 2)),
        (b"\xa00", (0, 2)),
        (b"2", "EINVAL"),
        (b"-1", "EINVAL"),
        (b"+0", "EINVAL"),
        (b"010", "EINVAL"),
        (b"1abc", "EINVAL"),
        (b"0,1", "EINVAL"),
        (b"0\0", "EINVAL"),
        (b"\x000", "EINVAL"),
        (b"- 1", "EINVAL"),
        (b"-", "EINVAL"),
        (b" ", "EINVAL"),
        (b"4294967297", "EINVAL"),
        (b"99999999999999999999", "EINVAL"),
    ],
)
def test_proc_dointvec_minmax(data, value):
    assert outcome(proc_dointvec_minmax, data, 0, 1) == value
