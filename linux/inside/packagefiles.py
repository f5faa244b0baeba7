# SPDX-License-Identifier: GPL-2.0-or-later
"""Serves the files of a kernel's package to the kernel, by FUSE.

They are /lib/modules/RELEASE, and /boot/config-RELEASE, in which programs look up how
the kernel was configured: libbpf for externs of BPF programs, LTP, SystemTap.

This tree lies below the host's, in an overlay: a file that both have is the host's.
Nothing in it ever changes.  Modules are unpacked when somebody first looks for them.
"""

from __future__ import annotations

import errno
import os
import stat
from functools import cached_property

from kpfs.base import fuse_wire as wire
from kpfs.base.fuse_wire import DirectoryEntry, ReadRequest
from kpfs.linux.errors import UnfitError
from kpfs.linux.inside.files import (
    EMPTY_STATFS,
    LISTED,
    WANTED,
    FuseFiles,
    ReplyMemory,
    attributes,
    check_name,
    statfs_answer,
)
from kpfs.linux.store import image

VALID = 1 << 30  # s for which the kernel may keep what it was told
TIME = 315532800  # s; 1980-01-01, as archives have it
MODE = 0o644
DIRECTORY = stat.S_IFDIR | MODE | 0o111


class PackageFiles(FuseFiles[str]):
    """Nodes are paths, without a slash before or behind them."""

    # with that, Linux looks up each file of a list that takes several requests
    wanted = WANTED & ~wire.READDIRPLUS_AUTO

    def __init__(self, folder: str, release: str) -> None:
        """folder: the kernel's."""
        super().__init__({wire.ROOT: ""}, {})
        self._numbers = {"": wire.ROOT}
        self._listings: dict[str, list[DirectoryEntry]] = {}
        self._folder, self._release = folder, release
        # hosts have one or the other, or both by a link
        self._tops = f"lib/modules/{release}", f"usr/lib/modules/{release}"
        self._config = image.config_place(folder, release).strip("/")
        self._above: dict[str, set[str]] = {}  # directories above: what is in them
        for path in (*self._tops, self._config):
            while path:
                path, _, name = path.rpartition("/")
                self._above.setdefault(path, set()).add(name)

    def packed(self) -> list[str]:
        """Return what the kernel knows, for adopt()."""
        return list(self._numbers)

    def adopt(self, paths: list[str]) -> None:
        """Continue for a kernel that knows what packed() has returned."""
        for path in paths:
            self._number(path)

    def _number(self, path: str) -> int:
        number = self._numbers.setdefault(path, len(self._numbers) + wire.ROOT)
        self._nodes[number] = path
        return number

    def _forget(self, number: int, lookups: int) -> None:
        """Do nothing: nodes are few, and keep their numbers."""

    # ---- the files
    @cached_property
    def _place(self) -> str:
        """The directory with the files.  OSError, EIO if the archive is damaged."""
        # a start does without: most commands never look here
        from kpfs.linux.store import kmod

        try:
            return kmod.install(self._folder, self._release)
        except UnfitError as error:
            raise OSError(errno.EIO, str(error)) from None

    def _file(self, path: str) -> str:
        """Return the host's file for a path; "" for a path outside of the package."""
        if path == self._config:
            return os.path.join(self._folder, image.CONFIG)
        for top in self._tops:
            if path == top or path.startswith(f"{top}/"):
                return os.path.join(self._place, path[len(top) + 1 :])
        return ""

    def _entries(self, path: str) -> list[tuple[str, bool]]:
        """Return the names in a directory, sorted, each with whether it is one."""
        if path in self._above:
            names = sorted(self._above[path])
            return [(name, f"{path}/{name}" != self._config) for name in names]
        with os.scandir(self._file(path)) as entries:
            return sorted((entry.name, entry.is_dir()) for entry in entries)

    def _attr(self, path: str) -> bytes:
        mode, size = DIRECTORY, 4096
        if not self._is_fixed(path):
            found = os.stat(self._file(path))
            if not stat.S_ISDIR(found.st_mode):
                mode, size = stat.S_IFREG | MODE, found.st_size
        blocks = [4096, (size + 511) // 512, 0]
        times = [TIME] * 6 + [TIME * 1_000_000_000] * 3
        row = (mode, self._number(path), 0, 1, 0, 0, size, *times, *blocks)
        return attributes(os.stat_result(row), 0, 0)

    def _is_fixed(self, path: str) -> bool:
        """Return True for directories that exist even if nothing is unpacked yet."""
        return path in self._above or path in self._tops

    # ---- answers
    def _lookup(self, node: str, name: bytes) -> bytes:
        check_name(name)
        path = _child(node, name)
        if not self._is_fixed(path) and not os.path.exists(self._file(path)):
            return wire.no_entry(VALID)
        return wire.entry(self._number(path), self._attr(path), VALID, VALID)

    def _getattr(self, node: str, _asked: None) -> bytes:
        return wire.attributes_answer(self._attr(node), VALID)

    def _statfs(self, node: str, _asked: None) -> bytes:
        return statfs_answer(EMPTY_STATFS)

    def _list(self, node: str, offset: int) -> list[DirectoryEntry]:
        if not offset:
            self._note_read(node, 0, LISTED)
        if node not in self._listings:
            rows = [(name, 1, stat.S_IFDIR >> 12) for name in (b".", b"..")]
            for name, is_folder in self._entries(node):
                kind = stat.S_IFDIR if is_folder else stat.S_IFREG
                raw = os.fsencode(name)
                rows.append((raw, self._number(_child(node, raw)), kind >> 12))
            self._listings[node] = rows
        return self._listings[node]

    def _read(self, node: str, asked: ReadRequest, reply: ReplyMemory) -> int:
        if node in self._above:
            raise IsADirectoryError(errno.EISDIR, node)
        with open(self._file(node), "rb") as file:
            data = os.pread(file.fileno(), asked.size, asked.offset)
        reply.put(wire.ANSWER.size, data)
        return len(data)


def _child(path: str, name: bytes) -> str:
    return f"{path}/{os.fsdecode(name)}" if path else os.fsdecode(name)
