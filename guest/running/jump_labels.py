# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the sites of static keys in the kernel's text.

The guest's text is read-only to the guest.  No probe can stand on a site, so this does
not get in the way of the engine's patches.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator

from kpfs.base import abi
from kpfs.base.elf import ElfFile
from kpfs.base.typed import NamedTuple
from kpfs.base.x86 import NOP5
from kpfs.guest.emu.memory import Memory

_ENTRY = abi.JumpEntry.STRUCT  # all fields are relative to their own place
_COUNT = struct.Struct("<i")


class _Site(NamedTuple):
    """A place in the text that a key changes."""

    code: int
    target: int  # where the jump leads
    holds: Callable[[int], bool] | None  # the module's: see JumpLabels.add()


class JumpLabels:
    """The sites of the kernel's static keys.  Context: control."""

    def __init__(
        self, memory: Memory, image: ElfFile, drop: Callable[[int, int], None]
    ) -> None:
        """drop: forgets translated code."""
        self._memory = memory
        self._drop = drop
        self._sites: dict[int, list[_Site]] = {}  # by key
        self._added: dict[int, Callable[[int], bool]] = {}  # by the table's address
        self._users: dict[int, Counter[int | None]] = {}  # by what each is about
        self.changes = 0  # how often use() was called
        section = image.section("__jump_table")
        if section is None:
            return
        self.add(section.addr, image.contents(section))

    def add(
        self, start: int, table: bytes, holds: Callable[[int], bool] | None = None
    ) -> None:
        """Take in a __jump_table that is at start, once.

        holds: a module's; tells if an address is still the module's, as its init part
        goes.
        """
        if holds is not None and self._added.get(start) == holds:
            return
        for n, entry in enumerate(_ENTRY.iter_unpack(table)):
            code, target, key = self._absolute(start + n * _ENTRY.size, entry)
            site = _Site(code, target, holds)
            self._sites.setdefault(key, []).append(site)
            if self.is_on(key):
                self._write(site, True)
        if holds is not None:
            self._added[start] = holds

    def forget(self, key: int) -> None:
        """Drop a key whose module goes."""
        self._sites.pop(key, None)
        self._users.pop(key, None)

    @staticmethod
    def _absolute(at: int, entry: tuple[int, ...]) -> tuple[int, int, int]:
        code, target, key = entry
        return (
            at + abi.JumpEntry.code + code,
            at + abi.JumpEntry.target + target,
            at + abi.JumpEntry.key + key,
        )

    def serve(self, _number: int, entry: int, on: int) -> int:
        """Serve CTL_JUMP_LABEL, by which the guest switches a site."""
        raw = self._memory.read(entry, _ENTRY.size)
        code, target, _ = self._absolute(entry, _ENTRY.unpack(raw))
        self._write(_Site(code, target, None), bool(on))
        return 0

    def use(self, key: int, on: bool, function: int | None = None) -> None:
        """Count one user more, or one less, that needs a key to be on.

        function: the only one whose calls it wants to see, of all that pass the sites.
        """
        counts = self._users.setdefault(key, Counter())
        counts[function] += 1 if on else -1
        users = counts.total()
        self._memory.write(key, _COUNT.pack(users))
        self.changes += 1
        if users == int(on):
            for site in self._sites_of(key):
                self._write(site, on)

    def users(self, key: int) -> int:
        """Return how many users of a key use() has counted."""
        return self._users[key].total() if key in self._users else 0

    def is_on(self, key: int) -> bool:
        """Return True if use() has switched a key on."""
        return self.users(key) > 0

    def places_on(self) -> Iterator[int]:
        """Yield the sites of the keys that are on, or the functions of their users."""
        for key, counts in self._users.items():
            for function, users in counts.items():
                if users and function is not None:
                    yield function
                elif users:
                    yield from (site.code for site in self._sites_of(key))

    def _sites_of(self, key: int) -> list[_Site]:
        """Return the sites of a key that are still there."""
        sites = self._sites.get(key, [])
        left = [s for s in sites if s.holds is None or s.holds(s.code)]
        if len(left) < len(sites):
            self._sites[key] = left
        return left

    def _write(self, site: _Site, on: bool) -> None:
        code = site.code
        jump = b"\xe9" + (site.target - code - 5).to_bytes(4, "little", signed=True)
        self._memory.write(code, jump if on else NOP5)
        self._drop(code, len(NOP5))
