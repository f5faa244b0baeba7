# SPDX-License-Identifier: GPL-2.0-or-later
"""The mirror's own library in C, which uses functions of Python's C library."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

from kpfs.base import abi
from kpfs.base.structures import fields

_IMAGE_DIR = os.path.join(os.path.dirname(__file__), "image")
_libc = ctypes.CDLL(None)


def load() -> ctypes.CDLL:
    """Return the library; its functions run while others run Python."""
    return ctypes.CDLL(os.path.join(_IMAGE_DIR, f"fast_path-{os.uname().machine}.so"))


def address_of(function: str) -> int:
    """Return the address of a function of the C library."""
    return ctypes.cast(_libc[function], ctypes.c_void_p).value or 0


class HostFacts(ctypes.Structure):
    """struct plan_host."""

    _fields_ = fields(abi.PlanHost)

    def __init__(self, trees: Iterable[bytes], devices: Iterable[int]) -> None:
        """trees: the places of the mount's files, each with a / at its end.

        devices: st_dev of these files.
        """
        numbers = [_device(device) for device in devices if device]
        self._devices = (ctypes.c_uint64 * (len(numbers) + 1))(*numbers)
        self._trees = ctypes.create_string_buffer(b"".join(t + b"\0" for t in trees))
        super().__init__(
            address_of("syscall"),
            address_of("__errno_location"),
            _device(os.stat("/proc").st_dev),
            ctypes.addressof(self._devices),
            ctypes.addressof(self._trees),
        )


def _device(device: int) -> int:
    """Return a device as plan.c has it."""
    return os.major(device) << 32 | os.minor(device)
