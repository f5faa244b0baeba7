# SPDX-License-Identifier: GPL-2.0-or-later
"""Have an idle CPU serve a request by one turn, in one call of C: ``idle_turn.c``.

Without its library, as on a host that it is not built for, there are no such turns.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial

from kpfs.base import abi
from kpfs.base.structures import fields
from kpfs.emulator import libunicorn
from kpfs.emulator.libunicorn import address

NEVER = 1 << 32  # no value that a word has
_FUNCTIONS = "emu_start", "reg_read", "reg_write"


class Word(ctypes.Structure):
    """struct idle_turn_word."""

    _fields_ = fields(abi.IdleTurnWord)


class TurnWords:
    """Words of the guest that tell whether a turn has left anything to be done."""

    def __init__(self, places: Sequence[int]) -> None:
        """places: of 32-bit words, in the host's memory."""
        words = [Word(at, NEVER) for at in places]
        self._words = (Word * (len(places) + 1))(*words)
        self._now = [ctypes.c_uint32.from_address(at) for at in places]
        self.address = ctypes.addressof(self._words)

    def note(self) -> None:
        """Note their values: all that they tell of is done."""
        for word, now in zip(self._words, self._now, strict=False):
            word.value = now.value


class IdleTurn(ctypes.Structure):
    """struct idle_turn: a turn of one CPU that stands where it idles."""

    _fields_ = fields(abi.IdleTurn)
    err: int

    def __init__(self, **values: int) -> None:
        """values: all that is not the same for each CPU; see the structure.

        OSError: there is no library.
        """
        library, ours = libunicorn.load()
        if ours is None:
            raise OSError("no library of C for this host")
        ends = {"idle": abi.HC_IDLE, "host_op": abi.HC_HOST_OP}
        super().__init__(cs=abi.CS, ss=abi.DS, **ends, **values)
        for function in _FUNCTIONS:
            setattr(self, function, address(library, f"uc_{function}").value)
        ours.idle_turn.argtypes = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64
        # Wakes a task and runs the CPU; returns IDLE_TURN_...  It is given the task's
        # address, and where the request of the task is in the host's memory.
        # not by reference, which the garbage collector cannot follow back to self
        this = ctypes.c_void_p(ctypes.addressof(self))
        self.run: Callable[[int, int], int] = partial(ours.idle_turn, this)
        # Goes on behind a host operation; returns IDLE_TURN_..., too.  It is given
        # where that request is.
        ours.idle_turn_go_on.argtypes = ctypes.c_void_p, ctypes.c_uint64
        self.go_on: Callable[[int], int] = partial(ours.idle_turn_go_on, this)
