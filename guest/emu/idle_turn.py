# SPDX-License-Identifier: GPL-2.0-or-later
"""Have an idle CPU serve a request by one turn, in one call of C: ``idle_turn.c``.

Without its library, as on a host that it is not built for, there are no such turns.
"""

from __future__ import annotations

import ctypes

from kpfs.base import abi
from kpfs.guest.emu import libunicorn
from kpfs.guest.emu.libunicorn import address

_FUNCTIONS = "emu_start", "reg_read", "reg_write"


class IdleTurn(ctypes.Structure):
    """struct idle_turn: a turn of one CPU that stands where it idles."""

    _fields_ = [
        ("emu_start", ctypes.c_void_p),
        ("reg_read", ctypes.c_void_p),
        ("reg_write", ctypes.c_void_p),
        ("engine", ctypes.c_void_p),
        ("hypercalls", ctypes.c_void_p),
        ("wakeups", ctypes.c_void_p),
        ("credit", ctypes.c_void_p),
        ("turn_credit", ctypes.c_int32),
        ("err", ctypes.c_int32),
        ("frame", ctypes.c_void_p),
        ("cs", ctypes.c_uint64),
        ("ss", ctypes.c_uint64),
        ("sp", ctypes.c_uint64),
        ("top", ctypes.c_uint64),
        ("entry", ctypes.c_uint64),
        ("blocks", ctypes.c_uint64),
        ("idle", ctypes.c_uint64),
    ]
    err: int

    def __init__(self, **values: int) -> None:
        """values: all that is not the same for each CPU; see the structure.

        OSError: there is no library.
        """
        library, ours = libunicorn.load()
        if ours is None:
            raise OSError("no library of C for this host")
        super().__init__(cs=abi.CS, ss=abi.DS, idle=abi.HC_IDLE, **values)
        for function in _FUNCTIONS:
            setattr(self, function, address(library, f"uc_{function}").value)
        self._self = ctypes.byref(self)
        self._run = ours.idle_turn

    def run(self, task: int, request: int) -> int:
        """Wake a task and run the CPU; return IDLE_TURN_...

        request: where that of the task is in the host's memory.
        """
        words = ctypes.c_uint64(task), ctypes.c_uint64(request)
        result: int = self._run(self._self, *words)
        return result
