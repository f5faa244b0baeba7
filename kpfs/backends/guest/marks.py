# SPDX-License-Identifier: GPL-2.0-or-later
"""Find the tasks of a guest kernel that have files opened through the mount.

Under ``kpfs run`` tasks inherit, duplicate and close these files as their processes do,
so Python does not know where they are.  It numbers the mount's open files, marks what
it opens in the guest for them, and asks the guest again when descriptors may have moved
(guest/src/fs/mirror.c).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kpfs.guest.machine import Guest
    from kpfs.guest.running.hosttask import HostTask

_PLACE = struct.Struct("<2i")
PLACES_MAX = 64  # that one look finds


class Marks:
    """The marks of one guest kernel.  Context: control, lock held."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self._mark = guest.needed("mirror_mark")
        self._unpin = guest.needed("mirror_unpin")
        self._places = guest.needed("mirror_places")
        self._at = guest.area.alloc_data(PLACES_MAX * _PLACE.size)

    def mark(self, task: HostTask, fd: int, number: int) -> None:
        """Mark what a task has at fd as the mount's open file with a number.

        It stays open until unpin(), as a process may have it whose task is yet to come.
        """
        self._guest.syscalls.call_function(task, self._mark, fd, number)

    def unpin(self, number: int) -> None:
        """Let the open file with a number go with its last descriptor."""
        self._guest.syscalls.call_function(None, self._unpin, number)

    def places(self, number: int) -> list[tuple[int, int]]:
        """Return where the open file with a number is: pid and descriptor.

        Of tasks that share a table it is one.
        """
        call = self._guest.syscalls.call_function
        count = min(call(None, self._places, number, self._at, PLACES_MAX), PLACES_MAX)
        if count <= 0:
            return []
        found = self._guest.read(self._at, count * _PLACE.size)
        return list(_PLACE.iter_unpack(found))
