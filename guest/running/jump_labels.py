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
from kpfs.guest.emu.memory import Memory
from kpfs.guest.loader.elf import ElfFile

_ENTRY = abi.JumpEntry.STRUCT  # all fields are relative to their own place
_COUNT = struct.Struct("<i")
_NOP5 = b"\x0f\x1f\x44\x00\x00"


class JumpLabels:
    """The sites of the kernel's static keys.  Context: control."""

    def __init__(
        self, memory: Memory, image: ElfFile, drop: Callable[[int, int], None]
    ) -> None:
        """drop: forgets translated code."""
        self._memory = memory
        self._drop = drop
        self._sites: dict[int, list[tuple[int, int]]] = {}  # key: (code, target)
        self._holds: dict[int, Callable[[int], bool] | None] = {}
        self._users: dict[int, Counter[int | None]] = {}  # by what each is about
        self.changes = 0  # how often use() was called
        section = image.section("__jump_table")
        if section is None:
            return
        self.add(section.addr, image.contents(section))

    def add(
        self, start: int, table: bytes, holds: Callable[[int], bool] | None = None
    ) -> None:
        """Take in a __jump_table that is at start.

        holds: a module's; says of a site and of a key if they are the module's, as its
        init part goes.
        """
        for n, entry in enumerate(_ENTRY.iter_unpack(table)):
            code, target, key = self._absolute(start + n * _ENTRY.size, entry)
            if holds is None or holds(key):
                self._sites.setdefault(key, []).append((code, target))
                self._holds[key] = holds

    def forget(self, key: int) -> None:
        """Drop a key whose module goes."""
        self._sites.pop(key, None)
        self._holds.pop(key, None)
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
        self._write(code, target, bool(on))
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
            for code, target in self._sites_of(key):
                self._write(code, target, on)

    def is_on(self, key: int) -> bool:
        """Return True if use() has switched a key on."""
        return key in self._users and self._users[key].total() > 0

    def places_on(self) -> Iterator[int]:
        """Yield the sites of the keys that are on, or the functions of their users."""
        for key, counts in self._users.items():
            for function, users in counts.items():
                if users and function is not None:
                    yield function
                elif users:
                    yield from (code for code, _ in self._sites_of(key))

    def _sites_of(self, key: int) -> list[tuple[int, int]]:
        sites, holds = self._sites.get(key, []), self._holds.get(key)
        return sites if holds is None else [site for site in sites if holds(site[0])]

    def _write(self, code: int, target: int, on: bool) -> None:
        jump = b"\xe9" + (target - code - 5).to_bytes(4, "little", signed=True)
        self._memory.write(code, jump if on else _NOP5)
        self._drop(code, len(_NOP5))
