# SPDX-License-Identifier: GPL-2.0-or-later
"""The mirror's own library in C, which uses functions of Python's C library."""

from __future__ import annotations

import ctypes
import os

from kpfs.guest.images import IMAGE_DIR

_libc = ctypes.CDLL(None)


def load() -> ctypes.CDLL:
    """Return the library; its functions run while others run Python."""
    return ctypes.CDLL(os.path.join(IMAGE_DIR, f"fast_path-{os.uname().machine}.so"))


def address_of(function: str) -> int:
    """Return the address of a function of the C library."""
    return ctypes.cast(_libc[function], ctypes.c_void_p).value or 0


class FreeDescriptors(ctypes.Structure):
    """struct functions of host.c, and the call that uses it."""

    MOST = 8

    _fields_ = [("syscall", ctypes.c_void_p), ("errno_location", ctypes.c_void_p)]

    def __init__(self) -> None:
        super().__init__(address_of("syscall"), address_of("__errno_location"))
        self._self = ctypes.byref(self)
        self._find = load().host_free_fds
        self._found = (ctypes.c_int * self.MOST)()

    def find(self, pid: int, count: int, start: int, end: int) -> list[int] | None:
        """Return the next free numbers of a process, MOST at most.

        None: the host does not tell, as it has no kcmp(2) or refuses it.
        """
        found = self._found
        number = self._find(self._self, pid, start, end, found, min(count, self.MOST))
        return None if number < 0 else found[:number]
