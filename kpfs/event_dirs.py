# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's side of the directories of events: it is called as they come and go.

Their files are the mount's; a probe on tracefs_create_dir() sees each new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.ktypes import KAddr
    from guest.machine import Guest

NAME_SIZE = 64  # of a group or an event, with its NUL
MAX_ERRNO = 4095


class EventDirs:
    """Makes and removes them.  Context: control.

    Kernel: event_create_dir(), remove_event_file_dir()
    """

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self._create = guest.address_of("tracefs_create_dir")
        self._remove = guest.address_of("tracefs_remove")
        self._name: KAddr | None = None
        # group, event ("": the group's own) -> struct dentry
        self._dentries: dict[tuple[str, str], int] = {}

    def added(self, group: str, event: str, first: bool) -> None:
        """An event has come; first: it is the first of its group."""
        if self._create is None:
            return
        if first:
            self._make(group, "", 0)
        self._make(group, event, self._dentries.get((group, ""), 0))

    def removed(self, group: str, event: str, last: bool) -> None:
        """An event has gone; last: and its group with it."""
        for key in [(group, event), (group, "")][: 1 + last]:
            dentry = self._dentries.pop(key, 0)
            if dentry and self._remove is not None:
                self._guest.call(self._remove, dentry)

    def _make(self, group: str, event: str, parent: int) -> None:
        assert self._create is not None
        guest = self._guest
        if self._name is None:
            self._name = guest.alloc_data(NAME_SIZE)
        name = (event or group).encode("latin-1")[: NAME_SIZE - 1]
        guest.write(self._name, name + b"\0")
        dentry = guest.call(self._create, self._name, parent)
        if dentry < 2**64 - MAX_ERRNO:
            self._dentries[group, event] = dentry
