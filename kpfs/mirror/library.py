# SPDX-License-Identifier: GPL-2.0-or-later
"""The mirror's own library in C, which uses functions of Python's C library."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable

from kpfs.guest.images import IMAGE_DIR

_libc = ctypes.CDLL(None)


def load() -> ctypes.CDLL:
    """Return the library; its functions run while others run Python."""
    return ctypes.CDLL(os.path.join(IMAGE_DIR, f"fast_path-{os.uname().machine}.so"))


def address_of(function: str) -> int:
    """Return the address of a function of the C library."""
    return ctypes.cast(_libc[function], ctypes.c_void_p).value or 0


class HostFacts(ctypes.Structure):
    """struct plan_host."""

    _fields_ = [
        ("syscall", ctypes.c_void_p),
        ("errno_location", ctypes.c_void_p),
        ("proc", ctypes.c_uint64),
        ("devices", ctypes.c_void_p),
        ("trees", ctypes.c_char_p),
    ]

    def __init__(self, trees: Iterable[bytes], devices: Iterable[int]) -> None:
        """trees: the places of the mount's files, each with a / at its end.

        devices: st_dev of these files.
        """
        numbers = [_device(device) for device in devices if device]
        self._devices = (ctypes.c_uint64 * (len(numbers) + 1))(*numbers)
        super().__init__(
            address_of("syscall"),
            address_of("__errno_location"),
            _device(os.stat("/proc").st_dev),
            ctypes.addressof(self._devices),
            b"".join(tree + b"\0" for tree in trees),
        )


def _device(device: int) -> int:
    """Return a device as plan.c has it."""
    return os.major(device) << 32 | os.minor(device)


class Question(ctypes.Structure):
    """struct plan_question; what is the same for all calls comes behind the rest."""

    PACK = struct.Struct("<4i3Q6Q").pack_into

    _fields_ = [
        ("packed", ctypes.c_uint64 * 11),
        ("buffer", ctypes.c_uint64),
        ("host", ctypes.c_void_p),
    ]
