# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the system calls of a guest kernel that somebody could see.

Tasks can be watched in three ways: by changed text, where probes, tracers and profilers
stand; by the kernel's own events, at their sites; and by code of modules, which alone
can watch data, too.  A call that reaches none of these places is seen by nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from kpfs.base.skip_policy import EVERY, NONE, Seen
from kpfs.base.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from kpfs.engine.arch.arches import GuestArch
    from kpfs.guest.machine import Guest

PLACES_MAX = 64  # more are not looked at one by one: any call may come to one


class GuestWatch:
    """Implements kpfs.base.skip_policy.VisibleCalls."""

    def __init__(self, guest: Guest, arch: Callable[[], GuestArch | None]) -> None:
        """arch: returns the engine's, or None as long as there is none."""
        self._guest = guest
        self._arch = arch
        self._state = (0, 0, 0)
        self._seen: Seen = NONE

    def _look(self) -> tuple[int, int, int]:
        """Return counters that change whenever a watcher starts or stops."""
        arch, guest = self._arch(), self._guest
        return arch.text_changes if arch else 0, guest.label_changes, len(guest.modules)

    @property
    def seen(self) -> Seen | None:
        return self._seen if self._look() == self._state else None

    def update(self) -> Seen:
        state = self._look()
        if state != self._state:
            self._seen, self._state = self._find(), state
        return self._seen

    def _find(self) -> Seen:
        arch, guest = self._arch(), self._guest
        if guest.modules:
            return EVERY
        places = [*guest.places_of_events()]
        if arch is not None:
            places += islice(arch.patched_text(), PLACES_MAX + 1)
        return self._reaching(places)

    def _reaching(self, places: Iterable[int]) -> Seen:
        found: set[int] = set()
        for count, addr in enumerate(places):
            calls = self._guest.call_graph.reaching(addr)
            if calls is None or count == PLACES_MAX:
                return EVERY
            found |= calls
        return frozenset(found)
