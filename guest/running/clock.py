# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's time: the clock word, and functions to be run later.

On a live machine the word is the host's monotonic time since boot.  On a quiet one it
is virtual: it grows by a fixed step with each operation, and by a small one with each
look that the guest takes, and jumps to the next deadline when the host has waited for
it.  So the same operations in the same order see the same times.
"""

from __future__ import annotations

import struct
import time
from bisect import insort
from collections.abc import Callable

from kpfs.base.abi import CLOCK_STEP
from kpfs.base.ktypes import KTime
from kpfs.guest.emu.memory import Memory

QUIET_STEP = 10_000  # ns of virtual time for each operation
KTIME_MAX = (1 << 63) - 1  # the guest's times are signed
_U64 = struct.Struct("<Q")


class Clock:
    """Keeper of the clock word, which guest code reads and the engine's may advance."""

    def __init__(self, memory: Memory, phys: int, quiet: bool) -> None:
        self.quiet = quiet
        self.host = time.monotonic_ns
        self.boot_time = 0 if quiet else int(time.time())  # seconds since 1970
        self._ram = memory.ram
        self._at = phys
        self._origin = self.host()
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self.timers = 0  # how many functions were to be run later so far
        self._awaited = 0, 0  # deadline, and the host's time when it has come

    def read_host_by(self, host: Callable[[], int]) -> None:
        """Have the host's time in ns read by this function."""
        self.host = host

    def now(self) -> KTime:
        """Return ns since boot, never less than before; bring the word up to date."""
        value: int = _U64.unpack_from(self._ram, self._at)[0]
        if not self.quiet:
            host = self.host() - self._origin
            if host > value:
                value = host
                _U64.pack_into(self._ram, self._at, value)
        return KTime(value)

    def real_offset(self) -> KTime:
        """Return what to add to now() for the time of day."""
        return KTime(self.boot_time * 1_000_000_000)

    def word(self, ram: int) -> tuple[int, int, int, int]:
        """Return what Hypercalls.keep_clock() wants.  ram: the address of the RAM."""
        return ram + self._at, self._origin, QUIET_STEP * self.quiet, KTIME_MAX

    def asked(self, why: int) -> None:
        """Serve a guest that wants the word brought up to date.

        why: CLOCK_READ, or CLOCK_STEP for what step() is. Context: hit.
        """
        if not self.quiet:
            self.now()
        elif why == CLOCK_STEP:
            self.step()

    def advance(self, to: int) -> None:
        """Bring a virtual clock forward, at most to its end; leave a live one alone."""
        if self.quiet and to > self.now():
            _U64.pack_into(self._ram, self._at, min(to, KTIME_MAX))

    def await_deadline(self, deadline: int) -> None:
        """Bring a virtual clock to a deadline that the host has waited for.

        The wait begins at the first call with that deadline, and takes as long on the
        host as the deadline was away then.
        """
        if not self.quiet or deadline <= self.now():
            return
        host = time.monotonic_ns()
        if self._awaited[0] != deadline:
            self._awaited = deadline, host + deadline - self.now()
        elif host >= self._awaited[1]:
            self.advance(deadline)

    def step(self) -> None:
        """Move a virtual clock on, as one more operation begins.  Context: any."""
        if self.quiet:
            now = _U64.unpack_from(self._ram, self._at)[0]
            _U64.pack_into(self._ram, self._at, min(now + QUIET_STEP, KTIME_MAX))

    # ---- functions to be run later (control)
    def call_later(self, delay: int, func: Callable[[], None]) -> None:
        self.timers += 1
        insort(self._timers, (self.now() + delay, self.timers, func))

    def next_timer(self) -> int | None:
        return self._timers[0][0] if self._timers else None

    def run_timers(self) -> None:
        """Run the functions that are due, in order of time."""
        now = self.now()
        while self._timers and self._timers[0][0] <= now:
            self._timers.pop(0)[2]()
