# SPDX-License-Identifier: GPL-2.0-or-later
"""Which system calls somebody could see if tasks of the guest made them.

What tasks do can be seen by its text, where probes, tracers and profilers stand, by
the kernel's own events at their sites, and by code of modules, which alone can watch
data too.  So a call that cannot come to any of these places is seen by nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kpfs.engine.arch.arches import GuestArch
    from kpfs.guest.machine import Guest

PLACES_MAX = 64  # more are not looked at one by one: any call may come to one


class _Every:
    """All system calls."""

    def __contains__(self, _number: object) -> bool:
        return True


EVERY: Final = _Every()
NONE: Final[frozenset[int]] = frozenset()
Seen = _Every | frozenset[int]


class Watched:
    """Finds the calls that can be seen, anew when somebody begins or ends to watch."""

    def __init__(self, guest: Guest, arch: Callable[[], GuestArch | None]) -> None:
        """arch: the engine's, None as long as there is none."""
        self._guest = guest
        self._arch = arch
        self._state = (0, 0, 0)
        self._seen: Seen = NONE

    def _look(self) -> tuple[int, int, int]:
        """Numbers of which one is another when somebody has begun or ended."""
        arch, guest = self._arch(), self._guest
        return arch.text_changes if arch else 0, guest.label_changes, len(guest.modules)

    @property
    def seen(self) -> Seen | None:
        """The numbers of the calls that can be seen; NONE, or empty: no call can.

        None: that has changed, and is not known until update() is called.
        Context: any.
        """
        return self._seen if self._look() == self._state else None

    def update(self) -> Seen:
        """Find out: the numbers as above.  Context: control, lock held."""
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
