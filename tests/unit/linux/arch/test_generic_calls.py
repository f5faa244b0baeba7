# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls of x86-64 as kernels have them that came later, and numbers of all.

Also tests kpfs.linux.arch.call_numbers.
"""

import os

import pytest

from kpfs.base import syscall_numbers as nr
from kpfs.linux.arch.arches import ARM64, RISCV64
from kpfs.linux.arch.call_numbers import call_numbers
from kpfs.linux.arch.generic_calls import ABSENT, generic_call
from kpfs.mirror.calls import CALLS

OPENAT, UNLINKAT, FSTATAT, PPOLL, DUP3, FCNTL = 56, 35, 79, 73, 24, 25
AT_FDCWD, AT_SYMLINK_NOFOLLOW, AT_REMOVEDIR = -100, 0x100, 0x200


@pytest.mark.parametrize(
    ("number", "args", "made"),
    [
        (nr.GETPPID, (), (173, ())),
        (nr.READ, (3, "out", 5), (63, (3, "out", 5))),
        (nr.OPEN, ("p", os.O_RDWR, 0), (OPENAT, (AT_FDCWD, "p", os.O_RDWR, 0))),
        (nr.CREAT, ("p", 0o600), (OPENAT, (AT_FDCWD, "p", 0o1101, 0o600))),
        (nr.RMDIR, ("p",), (UNLINKAT, (AT_FDCWD, "p", AT_REMOVEDIR))),
        (nr.LSTAT, ("p", 8), (FSTATAT, (AT_FDCWD, "p", 8, AT_SYMLINK_NOFOLLOW))),
        (nr.DUP2, (4, 5), (DUP3, (4, 5, 0))),
        (nr.DUP2, (4, 4), (FCNTL, (4, 1))),
        # riscv64 has no renameat()
        (nr.RENAME, ("p", "q"), (276, (AT_FDCWD, "p", AT_FDCWD, "q", 0))),
        (nr.RENAMEAT, (3, "p", 4, "q"), (276, (3, "p", 4, "q", 0))),
        (nr.POLL, ("fds", 1, -1), (PPOLL, ("fds", 1, 0, 0, 8))),
        (57, (), (ABSENT, ())),  # fork()
    ],
)
def test_calls_are_translated_by_what_they_mean(number, args, made):
    assert generic_call(number, args) == made


def test_a_time_to_wait_is_a_structure():
    _, args = generic_call(nr.POLL, ("fds", 1, 1500))
    seconds, ns = (args[2][at : at + 8] for at in (0, 8))
    assert int.from_bytes(seconds, "little") == 1
    assert int.from_bytes(ns, "little") == 500_000_000


def test_flags_of_open():
    """The numbers are those of both files asm/fcntl.h."""
    same = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_TRUNC
    assert ARM64.open_flags(same) == same
    pairs = {
        0o40000: 0o200000,
        0o100000: 0o400000,
        0o200000: 0o40000,
        0o400000: 0o100000,
    }
    for flag, there in pairs.items():
        assert ARM64.open_flags(flag | same) == there | same
        assert RISCV64.open_flags(flag) == flag
    _, args = ARM64.native(nr.OPENAT, (3, "p", 0o200000, 0))
    assert args == (3, "p", 0o40000, 0)


def test_each_mirrored_call_is_there():
    absent = [
        number
        for number, call in CALLS.items()
        if generic_call(number, tuple(0 for _ in call.args))[0] == ABSENT
    ]
    assert absent == []


@pytest.mark.parametrize(
    ("table", "first", "read", "statx"),
    [
        ("generic", 0, 63, 291),
        ("i386", 0, 3, 383),
        ("armhf", 0, 3, 397),
        ("s390x", 0, 3, 379),
        ("ppc64", 0, 3, 383),
        ("mips64", 5000, 5000, 5326),
    ],
)
def test_numbers_of_an_architecture(table, first, read, statx):
    numbers = call_numbers(table)
    assert (numbers[nr.READ], numbers[nr.STATX]) == (read, statx)
    assert numbers[nr.CLONE3] == first + nr.CLONE3
    assert len(numbers) == len(set(numbers.values())), "two calls have one number"
