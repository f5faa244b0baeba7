# SPDX-License-Identifier: GPL-2.0-or-later
"""Results that are kept in the folder of a kernel, as they are long in the making.

They follow from the image and from the sources of kpfs. So a file is used only if both
are what they were when it was made, and is no part of the image: exports lack it, and
whoever removes it loses nothing but time.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import mmap
import os
import time
from collections.abc import Callable, Sequence
from functools import cache

from kpfs.base import abi, elf
from kpfs.base.data_model import LITTLE_64
from kpfs.linux.store.image import Meta

_LINUX = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_HEAD = LITTLE_64.struct("32s32s")  # key, SHA-256 of what follows
_LOADED = time.time()  # when this process began to load the sources
_SIZE = LITTLE_64.struct("Q")  # size of a piece, which is before it
Piece = bytes | memoryview


class KeptFile:
    """A file of some pieces of bytes, which need not be there.  Context: any."""

    def __init__(self, folder: str, name: str, meta: Meta) -> None:
        """folder, meta: of a kernel."""
        self._folder, self._name = folder, name
        self._key = _key(meta)

    def get(self, make: Callable[[], Sequence[Piece]]) -> Sequence[Piece]:
        """Return the pieces, which are made and kept if they are not there."""
        found = self.read()
        if found is None:
            found = make()
            self.keep(found)
        return found

    def get_if_kept(
        self, make: Callable[[], Sequence[Piece]]
    ) -> Sequence[Piece] | None:
        """Return get(), or None if each process would have to make the pieces anew."""
        found = self.read()
        if found is None and os.access(self._folder, os.W_OK):
            return self.get(make)
        return found

    def read(self) -> Sequence[Piece] | None:
        """Return the pieces, None if they are of another image or version of kpfs."""
        try:
            with open(os.path.join(self._folder, self._name), "rb") as file:
                whole = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
        except (OSError, ValueError):  # it is not there, or empty
            return None
        if len(whole) < _HEAD.size:
            return None
        key, digest = _HEAD.unpack_from(whole)
        data = whole[_HEAD.size :]
        if key != self._key or digest != hashlib.sha256(data).digest():
            return None
        pieces, at = [], 0
        while at < len(data):
            begin = at + _SIZE.size
            at = begin + _SIZE.unpack_from(data, at)[0]
            pieces.append(data[begin:at])
        return pieces

    def keep(self, pieces: Sequence[Piece]) -> None:
        """Write the file, if the folder is writable and nobody else is writing it.

        Nothing is written either if kpfs was replaced while this process runs: the
        pieces are not those that the sources make now.
        """
        with contextlib.suppress(OSError):
            if all(os.stat(path).st_ctime < _LOADED for path in _paths()):
                self._write(pieces)

    def _write(self, pieces: Sequence[Piece]) -> None:
        parts = [part for each in pieces for part in (_SIZE.pack(len(each)), each)]
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part)
        new = os.path.join(self._folder, f".{self._name}.new")  # or a killed process's
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(new, flags, 0o600), "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(file.fileno()).st_ino != os.stat(new).st_ino:
                return  # another process has just put it in place
            file.truncate()
            file.write(_HEAD.pack(self._key, digest.digest()))
            file.writelines(parts)
            file.flush()
            os.replace(new, os.path.join(self._folder, self._name))


def _key(meta: Meta) -> bytes:
    """Return a digest of the image and of all sources that shape the file."""
    return hashlib.sha256(meta.digest.encode() + _of_sources()).digest()


@cache
def _of_sources() -> bytes:
    digest = hashlib.sha256()
    for path in _paths():
        with open(path, "rb") as file:
            digest.update(file.read())
    return digest.digest()


def _paths() -> list[str]:
    return [*sources(), abi.__file__, elf.__file__]


def sources() -> list[str]:
    """Return all modules and tables of kpfs.linux: no list has to be kept by hand."""
    rooms = [entry.path for entry in os.scandir(_LINUX) if entry.is_dir()]
    return sorted(
        entry.path
        for room in (_LINUX, *rooms)
        for entry in os.scandir(room)
        if entry.name.endswith((".py", ".tsv"))
    )
