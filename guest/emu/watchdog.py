# SPDX-License-Identifier: GPL-2.0-or-later
"""A watchdog that ends a run of guest code that loops without a poll.

No Python thread can stop such a run, as the running thread keeps the GIL.  So a timer
of the C library calls uc_emu_stop() itself, on a thread of its own.  Such a stop may
repeat a read-modify-write of the guest, so it must never hit a sound run: the timer
counts the CPU time of this process, and is wound again before a run whenever the last
winding is REWIND old, or a tenth of the time until it expires.  For a while after it
has ended a run it is wound for GRACE of its limit only, as a guest that loops again so
soon is not worth the full wait.
"""

from __future__ import annotations

import ctypes
import time

LIMIT = 5.0  # s of CPU time in one run
GRACE = 0.25  # part of LIMIT that is left after a run was ended
SHORT_GRACE = GRACE / 2  # and after the next ones, that followed at once
REWIND = 0.5  # s of the host's time, at most
_AGAIN = 1.0  # s after which an expiry that had no effect is repeated
_CLOCK_PROCESS_CPUTIME_ID = 2
_SIGEV_THREAD = 2


class _SigEvent(ctypes.Structure):
    """struct sigevent of 64 bits."""

    _fields_ = [
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("function", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("_pad", ctypes.c_char * 32),
    ]


class _TimerSpec(ctypes.Structure):
    """struct itimerspec, its two times in s and ns."""

    _fields_ = [("words", ctypes.c_long * 4)]


class Watchdog:
    """Calls a C function with one pointer when a run lasts too long."""

    def __init__(self, function: int, argument: int, limit: float = LIMIT) -> None:
        self.limit = limit
        self.rewind_at = 0.0  # a time of time.monotonic(): wind() is due
        self._wound_at = 0.0  # a time of time.process_time()
        self._wound_for = limit
        self.spent = 0.0  # s of CPU time, until it ended a run
        self._hurry_until = 0.0  # a time of time.process_time()
        self._grace = GRACE
        self._timer = ctypes.c_void_p()
        self._library = _library()
        event = _SigEvent(argument, 0, _SIGEV_THREAD, function, None)
        create = getattr(self._library, "timer_create", None)
        if create is None or create(
            _CLOCK_PROCESS_CPUTIME_ID, ctypes.byref(event), ctypes.byref(self._timer)
        ):
            self._library = None  # then there is no watchdog
            self.rewind_at = float("inf")

    def wind(self) -> None:
        """Let the timer expire ``limit`` from now, or sooner.  Context: control."""
        if self._library is None:
            return
        self._wound_at = now = time.process_time()
        self._wound_for = self.limit * (self._grace if now < self._hurry_until else 1)
        # well before it expires: else it does while sound runs follow one another
        self.rewind_at = time.monotonic() + min(REWIND, self._wound_for / 10)
        spec = _TimerSpec((*_seconds(_AGAIN), *_seconds(self._wound_for)))
        self._library.timer_settime(self._timer, 0, ctypes.byref(spec), None)

    def is_due(self) -> bool:
        """Return True if the timer has ended this run, or is just about to."""
        passed = time.process_time() - self._wound_at
        return self._library is not None and passed >= self._wound_for * 0.9

    def expired(self) -> bool:
        """Return True if the timer ended this run; the next run will wind it again."""
        if not self.is_due():
            return False
        now = time.process_time()
        self.rewind_at, self.spent = 0.0, now - self._wound_at
        self._grace = SHORT_GRACE if now < self._hurry_until else GRACE
        self._hurry_until = now + 2 * self.limit
        return True

    def close(self) -> None:
        """Delete the timer: nothing is called afterwards but a call that has begun."""
        if self._library is not None:
            self._library.timer_delete(self._timer)
            self._library = None


def _seconds(value: float) -> tuple[int, int]:
    return int(value), int(value % 1 * 1e9)


def _library() -> ctypes.CDLL | None:
    """Return the library that has timer_create(): libc, or librt beside an old libc."""
    library = ctypes.CDLL(None)
    if hasattr(library, "timer_create"):
        return library
    try:
        return ctypes.CDLL("librt.so.1")
    except OSError:
        return None
