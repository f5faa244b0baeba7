# SPDX-License-Identifier: GPL-2.0-or-later
"""Serve the hypercalls that every request makes without Python: ``hypercalls.c``.

Without its library, as on a host that it is not built for, Python serves all.
"""

from __future__ import annotations

import ctypes

from kpfs.base import abi
from kpfs.base.structures import fields
from kpfs.emulator import libunicorn


class Hypercalls(ctypes.Structure):
    """struct hypercalls."""

    _fields_ = fields(abi.Hypercalls)

    def __init__(self, serve: object, counter: int) -> None:
        """serve: the hook in Python.  counter: the engine's struct block_counter."""
        super().__init__()
        library, ours = libunicorn.load()
        self.hook = serve if ours is None else ours.hypercalls_out
        self.serve, self.emu_stop = _address(serve), _address(library.uc_emu_stop)
        self.clock_gettime = _address(ctypes.CDLL(None).clock_gettime)
        self.counter = counter

    @property
    def address(self) -> int:
        return ctypes.addressof(self)

    def keep_clock(self, clock: int, origin: int, step: int, limit: int) -> None:
        """Serve HC_CLOCK.  clock: the address of the clock word; see the structure."""
        self.clock, self.origin, self.step, self.limit = clock, origin, step, limit
        self.moves = abi.CLOCK_STEP
        self.ways[abi.HC_CLOCK] = abi.HYPERCALL_CLOCK


def _address(function: object) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value  # type: ignore[arg-type]
