# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls of x86-64 as i386 and armhf have them: numbers of 64 bits in pairs.

Kernel: syscall_32.tbl of arch/x86, syscall.tbl of arch/arm
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kpfs.base import syscall_numbers as nr
from kpfs.linux.arch.arch import Args
from kpfs.linux.arch.generic_calls import ABSENT, with_flags

_PAGE_SHIFT, _MONOTONIC = 12, 1


class SmallCalls(NamedTuple):
    """The calls of an architecture."""

    numbers: Mapping[int, int]
    arguments: Mapping[int, Callable[..., Args]]  # what becomes of those of some calls
    open_flags: Callable[[int], int] = int

    def native(self, number: int, args: Args) -> tuple[int, Args]:
        """Return a call of x86-64 as the architecture has it."""
        if number == nr.NANOSLEEP:
            number, args = nr.CLOCK_NANOSLEEP, (_MONOTONIC, 0, *args)
        args = with_flags(number, args, self.open_flags)
        change = self.arguments.get(number)
        return self.numbers.get(number, ABSENT), change(*args) if change else args


def pair(number: int) -> Args:
    """Return a number of 64 bits as two arguments."""
    return number & 0xFFFF_FFFF, number >> 32 & 0xFFFF_FFFF


def arguments(gap: Args, statfs_size: int) -> dict[int, Callable[..., Args]]:
    """Return what becomes of arguments.

    gap: what stands before a pair that would begin at an odd place. statfs_size: bytes
    of struct statfs64.
    """
    return {
        nr.MMAP: lambda at, size, prot, flags, fd, offset: (
            *(at, size, prot, flags, fd, offset >> _PAGE_SHIFT),
        ),
        nr.PREAD64: lambda fd, out, size, at: (fd, out, size, *gap, *pair(at)),
        nr.PWRITE64: lambda fd, data, size, at: (fd, data, size, *gap, *pair(at)),
        nr.TRUNCATE: lambda path, size: (path, *gap, *pair(size)),
        nr.FTRUNCATE: lambda fd, size: (fd, *gap, *pair(size)),
        nr.READAHEAD: lambda fd, at, size: (fd, *gap, *pair(at), size),
        nr.PREADV: lambda fd, vector, count, at, *_: (fd, vector, count, *pair(at)),
        nr.PWRITEV: lambda fd, vector, count, at, *_: (fd, vector, count, *pair(at)),
        nr.PREADV2: lambda fd, vector, count, at, _high, flags: (
            *(fd, vector, count, *pair(at), flags),
        ),
        nr.PWRITEV2: lambda fd, vector, count, at, _high, flags: (
            *(fd, vector, count, *pair(at), flags),
        ),
        nr.STATFS: lambda path, out: (path, statfs_size, out),
        nr.FSTATFS: lambda fd, out: (fd, statfs_size, out),
    }
