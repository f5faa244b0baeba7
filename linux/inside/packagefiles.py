# SPDX-License-Identifier: GPL-2.0-or-later
"""/lib/modules/RELEASE of a kernel's package, as the file server of a guest.

It is a tree of its own, which lies below the host's: what is there twice is the host's.
Nothing in it ever changes.  The archive is opened by who first looks into it.
"""

from __future__ import annotations

import errno
import os
import stat
from functools import lru_cache

from kpfs.base import fuse_wire as wire
from kpfs.base.fuse_wire import DirectoryEntry, Opcode, ReadRequest, taking
from kpfs.linux.errors import UnfitError
from kpfs.linux.inside.files import (
    Answers,
    Files,
    ReplyMemory,
    attributes,
    statfs_answer,
)

VALID = 1 << 30  # s that the guest takes what it knows for true
TIME = 315532800  # s; 1980-01-01, as archives have it
MODE = 0o644
_LAST = 4  # files whose contents are kept


class Package:
    """The archive.  UnfitError where it is damaged.

    Context: one process, as those who are forked would share the place in the file.
    """

    def __init__(self, path: str) -> None:
        # a start does without: most commands never look into it
        from kpfs.linux.store.modules import Modules

        self._modules = Modules(path)
        self.sizes = self._modules.sizes()
        self.folders: dict[str, set[str]] = {"": set()}  # what is in each
        for name in self.sizes:
            while name:
                above, _, last = name.rpartition("/")
                self.folders.setdefault(above, set()).add(last)
                name = above
        self.content = lru_cache(_LAST)(self._modules.content)


class PackageFiles(Files[str]):
    """Nodes are paths, without a slash before or behind them."""

    def __init__(self, archive: str, release: str) -> None:
        """archive: that of the kernel's modules."""
        answers: Answers[str] = {
            Opcode.LOOKUP: taking(wire.name, self._lookup),
            Opcode.GETATTR: taking(wire.nothing, self._getattr),
            Opcode.STATFS: taking(wire.nothing, self._statfs),
            Opcode.READDIR: taking(ReadRequest.parse, self._readdir),
            Opcode.READDIRPLUS: taking(ReadRequest.parse, self._readdirplus),
        }
        super().__init__({wire.ROOT: ""}, answers)
        self._numbers = {"": wire.ROOT}
        self._archive = archive
        self._opened: tuple[int, Package] | None = None  # by which process
        # where hosts may have them, of which one leads to the other mostly
        self._tops = f"lib/modules/{release}", f"usr/lib/modules/{release}"
        self._above: dict[str, set[str]] = {}  # the directories above those
        for path in self._tops:
            while path:
                path, _, name = path.rpartition("/")
                self._above.setdefault(path, set()).add(name)

    def packed(self) -> list[str]:
        """What the guest knows."""
        return list(self._numbers)

    def adopt(self, paths: list[str]) -> None:
        """Go on for a guest that knows what packed() tells of."""
        for path in paths:
            self._number(path)

    def _number(self, path: str) -> int:
        number = self._numbers.setdefault(path, len(self._numbers) + wire.ROOT)
        self._nodes[number] = path
        return number

    def _forget(self, number: int, lookups: int) -> None:
        """They are few, and keep their numbers."""

    # ---- what there is
    @property
    def _package(self) -> Package:
        """OSError: EIO."""
        pid = os.getpid()
        if not self._opened or self._opened[0] != pid:
            try:
                self._opened = pid, Package(self._archive)
            except UnfitError as error:
                raise OSError(errno.EIO, str(error)) from None
        return self._opened[1]

    def _within(self, path: str) -> str | None:
        """The path in the archive; None for what is above."""
        for top in self._tops:
            if path == top or path.startswith(f"{top}/"):
                return path[len(top) + 1 :]
        return None

    def _entries(self, path: str) -> set[str] | None:
        """The names in a directory; None where there is none."""
        within = self._within(path)
        if within is None:
            return self._above.get(path)
        return self._package.folders.get(within)

    def _is_there(self, path: str) -> bool:
        above, _, name = path.rpartition("/")
        return not path or name in (self._entries(above) or ())

    def _attr(self, path: str) -> bytes:
        within, number = self._within(path), self._number(path)
        size = 4096
        if within is None or within == "" or within in self._package.folders:
            mode = stat.S_IFDIR | MODE | 0o111
        else:
            mode, size = stat.S_IFREG | MODE, self._package.sizes[within]
        blocks = [4096, (size + 511) // 512, 0]
        times = [TIME] * 6 + [TIME * 1_000_000_000] * 3
        row = (mode, number, 0, 1, 0, 0, size, *times, *blocks)
        return attributes(os.stat_result(row), 0, 0)

    # ---- answers
    def _entry(self, path: str) -> bytes:
        if not self._is_there(path):
            return wire.no_entry(VALID)
        return wire.entry(self._number(path), self._attr(path), VALID, VALID)

    def _lookup(self, path: str, name: bytes) -> bytes:
        return self._entry(_child(path, name))

    def _getattr(self, path: str, _asked: None) -> bytes:
        return wire.attributes_answer(self._attr(path), VALID)

    def _statfs(self, _path: str, _asked: None) -> bytes:
        return statfs_answer(os.statvfs_result((4096, 4096, 0, 0, 0, 0, 0, 0, 0, 255)))

    def _rows(self, path: str) -> list[DirectoryEntry]:
        rows = [DirectoryEntry(name, 1, stat.S_IFDIR >> 12) for name in (b".", b"..")]
        for name in sorted(self._entries(path) or ()):
            child = _child(path, os.fsencode(name))
            kind = stat.S_IFREG if self._entries(child) is None else stat.S_IFDIR
            known = os.fsencode(name), self._number(child)
            rows.append(DirectoryEntry(*known, kind >> 12))
        return rows

    def _readdir(self, path: str, asked: ReadRequest) -> bytes:
        return wire.dirents(self._rows(path), asked.offset, asked.size)

    def _readdirplus(self, path: str, asked: ReadRequest) -> bytes:
        def entry_of(name: bytes) -> bytes:
            own = name in (b".", b"..")
            return wire.no_entry() if own else self._entry(_child(path, name))

        return wire.dirents(self._rows(path), asked.offset, asked.size, entry_of)

    def _read(self, node: str, asked: ReadRequest, reply: ReplyMemory) -> int:
        end = asked.offset + asked.size
        within = self._within(node)
        if within is None or within not in self._package.sizes:
            raise OSError(errno.EISDIR, "a directory")
        try:
            data = self._package.content(within)[asked.offset : end]
        except UnfitError as error:
            raise OSError(errno.EIO, str(error)) from None
        reply.put(wire.ANSWER.size, data)
        return len(data)


def _child(path: str, name: bytes) -> str:
    return f"{path}/{os.fsdecode(name)}" if path else os.fsdecode(name)
