# SPDX-License-Identifier: GPL-2.0-or-later
"""Guard pages around the memory of a guest: beyond it is SIGSEGV at once."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

from kpfs.guest.emu import memory

GUARD = 64 << 20  # bytes on either side
SLACK = 4 << 20  # bytes that Linux may want in order to align a large mapping
TRIES = 500  # there may be as many smaller holes
PROT_NONE, MAP_PRIVATE, MAP_FIXED = 0, 2, 0x10
MAP_ANONYMOUS, MAP_NORESERVE = 0x20, 0x4000
FLAGS = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    *[ctypes.c_int] * 3,
    ctypes.c_long,
]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def _deny(at: int | None, size: int, flags: int = FLAGS) -> int:
    """Map pages that nobody may touch; where they are."""
    found = _libc.mmap(at, size, PROT_NONE, flags, -1, 0)
    if found is None or found == (1 << 64) - 1:
        raise MemoryError("no room for guard pages")
    return int(found)


class GuardedMmap:
    """Stands for the module mmap in kpfs.guest.emu.memory, in a process of its own."""

    def __init__(self) -> None:
        self.failed: list[mmap.mmap] = []  # kept, so that others come to lie elsewhere
        self.holes: list[tuple[int, int]] = []  # between guards, which stay

    def __getattr__(self, name: str) -> Any:
        return getattr(mmap, name)

    def mmap(self, fd: int, size: int, *args: Any, **more: Any) -> mmap.mmap:
        """Map memory as mmap.mmap() does, between pages that nobody may touch.

        They are mapped first, in one piece; Linux then puts what is mapped next into
        the hole that is made in them, if no hole above is as large.
        """
        for _ in range(TRIES):
            below = _deny(None, size + SLACK + 2 * GUARD)
            _libc.munmap(below + GUARD, size + SLACK)
            self.holes.append((below + GUARD, below + GUARD + size + SLACK))
            made = mmap.mmap(fd, size, *args, **more)
            at = ctypes.addressof(ctypes.c_char.from_buffer(made))
            if self.fill(at, at + size):
                return made
            self.failed.append(made)
        raise MemoryError("the guest's memory cannot be guarded")

    def fill(self, start: int, end: int) -> bool:
        """Guard what is left of the hole around start to end; False: it is in none."""
        for number, (first, last) in enumerate(self.holes):
            if first <= start and end <= last:
                for left, right in ((first, start), (end, last)):
                    if left < right:
                        _deny(left, right - left, FLAGS | MAP_FIXED)
                self.holes[number] = start, end
                return True
        return False


def guard() -> None:
    """Guard the memory of all guests that are made from now on in this process."""
    setattr(memory, "mmap", GuardedMmap())  # noqa: B010 (it is not exported)
