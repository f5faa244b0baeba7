# SPDX-License-Identifier: GPL-2.0-or-later
"""Call guest code for each directory of events that is made or removed.

The files in them are the mount's; a probe on tracefs_create_dir() sees each new one.
So are functions of trace points called, if guest code waits for what switches an event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kpfs.base import abi
from kpfs.base.ktypes import MASK64
from kpfs.base.units import MAX_ERRNO

if TYPE_CHECKING:
    from kpfs.base.ktypes import KAddr
    from kpfs.engine.trace.event.trace_event import Change
    from kpfs.guest.machine import Guest

FEW = 2  # are made or removed by a call each, more in one
_DIR = abi.KpfsTraceDir.STRUCT
NAME_SIZE = _DIR.size - abi.KpfsTraceDir.name  # bytes, with the NUL
_MADE = abi.KpfsTraceDir.made
_Key = tuple[str, str]  # group, event ("": the group's own)


class EventDirs:
    """The directories of events in the guest. Context: control.

    Kernel: event_create_dir(), remove_event_file_dir()
    """

    def __init__(self, guest: Guest) -> None:
        self._deferred = False
        self._guest = guest
        self._create = guest.needed("tracefs_create_dir")
        self._remove = guest.needed("tracefs_remove")
        self._update = guest.needed("update_event_dirs")  # which asks update()
        self._name: KAddr | None = None
        self._written = memoryview(b"")  # the bytes there
        self._dentries: dict[_Key, int] = {}
        self._left: deque[tuple[_Key, bool]] = deque()  # True: make it
        # those that guest code was told to make, and at which place
        self._making: dict[_Key, int] = {}
        self._functions: deque[int] = deque()  # functions of trace points, put off

    def changed(self, changes: Sequence[Change]) -> None:
        """Make and remove the directories of events, and those of their groups."""
        for group, event, come, with_group in changes:
            self._left.append(((group, event), come))
            if with_group:
                self._left.insert(len(self._left) - come, ((group, ""), come))
        if self._deferred:
            return
        if len(self._left) > FEW:
            self._guest.call(self._update)
        while self._left:
            key, make = self._left.popleft()
            if make:
                self._make(key)
                continue
            dentry = self._dentries.pop(key, 0)
            if dentry:
                self._guest.call(self._remove, dentry)

    def _make(self, key: _Key) -> None:
        guest = self._guest
        if self._name is None:
            self._name = guest.area.alloc_data(NAME_SIZE)
            self._written = guest.view(self._name, NAME_SIZE)
        name = _name(key) + b"\0"
        self._written[: len(name)] = name
        self._made(key, guest.call(self._create, self._name, self._parent(key)))

    def _parent(self, key: _Key) -> int:
        group, event = key
        return self._dentries.get((group, ""), 0) if event else 0

    def _made(self, key: _Key, dentry: int) -> None:
        if 0 < dentry <= MASK64 - MAX_ERRNO:
            self._dentries[key] = dentry

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Put the work off: guest code waits for us, so no other can run now.

        That code asks afterwards what is left to do (update()).
        """
        self._deferred = True
        try:
            with self._guest.put_off(self._put_off):
                yield
        finally:
            self._deferred = False

    def _put_off(self, function: int) -> int:
        self._functions.append(function)
        return 0

    def update(self, at: int, room: int) -> int:
        """Tell guest code of things that are left to do; return how many they are.

        at: its structures kpfs_trace_dir, with what came of the things before; there is
        room for so many.
        """
        for key, place in self._making.items():
            self._made(key, self._guest.read_u64(at + place * _DIR.size + _MADE))
        self._making.clear()
        rows: list[bytes] = []
        while self._functions and len(rows) < room:
            rows.append(_DIR.pack(0, 0, 0, self._functions.popleft(), b""))
        while self._left and len(rows) < room:
            key, make = self._left[0]
            if key in self._making or (key[0], "") in self._making:
                break  # it needs the dentry of that
            self._left.popleft()
            dentry = 0 if make else self._dentries.pop(key, 0)
            if make:
                self._making[key] = len(rows)
            elif not dentry:
                continue
            rows.append(_DIR.pack(0, dentry, self._parent(key), 0, _name(key)))
        self._guest.write(at, b"".join(rows))
        return len(rows)


def _name(key: _Key) -> bytes:
    group, event = key
    return (event or group).encode("latin-1")[: NAME_SIZE - 1]
