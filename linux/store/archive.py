# SPDX-License-Identifier: GPL-2.0-or-later
"""Exports a kernel to one file, for another machine or a CI cache, and imports it.

    MAGIC, version, size and SHA-256 of what follows, all little-endian
    zlib: for each file of the kernel's folder
        length of its name, name, its size, number of pieces
        offset and size of a piece, its bytes

Zero pages of the memory are left out. Modules are an archive, however the image has
them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import zlib
from collections.abc import Iterator
from typing import IO

from kpfs.base.aside import replacing
from kpfs.base.data_model import LITTLE_64
from kpfs.linux.board.board import MAX_RAM
from kpfs.linux.errors import UnfitError
from kpfs.linux.package.compression import MAX_UNPACKED, too_large
from kpfs.linux.store import image, modules, store

SUFFIX = ".kpfs"  # suffix of such files; "6.1.kpfs" is imported as 6.1
MAGIC, VERSION = b"kpfs kernel\n", 1
LEVEL = 3  # zlib's; xz would take 17 s instead of 2, for a tenth less
# in this order, with the most bytes that each may have
SIZES = {
    image.META: 1 << 20,
    image.SYMBOLS: 64 << 20,
    image.FUNCTIONS: 64 << 20,
    image.CONFIG: 4 << 20,
    image.MODULES: MAX_UNPACKED,
    image.RAM: MAX_RAM,
}
MAX_PIECES = 1 << 20
_HEAD = LITTLE_64.struct("12sIQ32s")
_FILE = LITTLE_64.struct("B")
_SIZES = LITTLE_64.struct("QQ")
_CHUNK = 1 << 20


def export(name: str, path: str) -> int:
    """Write a kernel to a file, and return the file's size.

    The file takes the place of an existing one. Raises UnfitError, OSError.
    """
    folder = store.folder(name)
    image.read_meta(folder)
    with replacing(path) as file:
        file.write(bytes(_HEAD.size))
        packer = zlib.compressobj(LEVEL)
        digest, size = hashlib.sha256(), 0
        with store.scratch() as aside:
            for piece in _pack(folder, aside):
                size += _put(file, digest, packer.compress(piece))
        size += _put(file, digest, packer.flush())
        file.seek(0)
        file.write(_HEAD.pack(MAGIC, VERSION, size, digest.digest()))
    return size + _HEAD.size


def _put(file: IO[bytes], digest: hashlib._Hash, data: bytes) -> int:
    digest.update(data)
    return file.write(data)


def _pack(folder: str, aside: str) -> Iterator[bytes]:
    """Yield the pieces of an export.  aside: an empty folder."""
    for name in SIZES:
        path = os.path.join(folder, name)
        try:
            if name == image.MODULES:
                path = modules.as_archive(path, os.path.join(aside, name))
            file = open(path, "rb")
        except FileNotFoundError:  # images of older versions lack some
            continue
        with file:
            pieces = list(_pieces(file.fileno()))
            raw, size = name.encode(), os.fstat(file.fileno()).st_size
            yield _FILE.pack(len(raw)) + raw + _SIZES.pack(size, len(pieces))
            for at, length in pieces:
                yield _SIZES.pack(at, length)
                for start in range(at, at + length, _CHUNK):
                    count = min(_CHUNK, at + length - start)
                    yield os.pread(file.fileno(), count, start)


def _pieces(fd: int) -> Iterator[tuple[int, int]]:
    """Yield offset and size of each part of a sparse file that is no hole."""
    end, at = os.fstat(fd).st_size, 0
    while at < end:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:  # ENXIO: nothing follows
            return
        at = os.lseek(fd, start, os.SEEK_HOLE)
        yield start, at - start


def import_file(path: str, name: str) -> image.Meta:
    """Keep an exported kernel by a name; UnfitError says why not; OSError."""
    store.check_name(name)
    with open(path, "rb") as file:
        _check(file, path)
        with store.new_folder(name) as folder:
            try:
                _unpack(_ArchiveReader(file), folder, path)
            except (zlib.error, EOFError):
                raise UnfitError(f"{path}: damaged") from None
            meta = image.read_meta(folder, path)
            _check_files(folder, meta, path)
            with contextlib.suppress(FileNotFoundError):  # older ones may lack them
                modules.as_files(os.path.join(folder, image.MODULES), meta.release)
            return meta


def _check_files(folder: str, meta: image.Meta, path: str) -> None:
    """Raise UnfitError if a file that a kernel needs is missing or damaged."""
    try:
        image.open_ram(folder, meta).close()
        image.read_config(folder)
        if not os.path.getsize(os.path.join(folder, image.SYMBOLS)):
            raise ValueError("no symbols")
    except (UnfitError, FileNotFoundError, ValueError):
        raise UnfitError(f"{path}: damaged") from None


def _check(file: IO[bytes], path: str) -> None:
    """Raise UnfitError unless the file is whole. It stands behind the head then."""
    head = file.read(_HEAD.size)
    if not head.startswith(MAGIC):
        raise UnfitError(f"{path}: no kernel that kpfs has exported")
    if len(head) < _HEAD.size:
        raise UnfitError(f"{path}: cut short")
    _, version, size, digest = _HEAD.unpack(head)
    if version != VERSION:
        raise UnfitError(f"{path}: exported by another version of kpfs")
    found = hashlib.sha256()
    while data := file.read(_CHUNK):
        found.update(data)
        size -= len(data)
    if size > 0:
        raise UnfitError(f"{path}: cut short")
    if size < 0 or found.digest() != digest:
        raise UnfitError(f"{path}: damaged")
    file.seek(_HEAD.size)


class _ArchiveReader:
    """Returns as many unpacked bytes as asked for, up to _CHUNK. Raises EOFError."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._unpacker = zlib.decompressobj()
        self._made, self._at = b"", 0  # unpacked, and how much of it was returned

    def __call__(self, size: int) -> bytes:
        while len(self._made) - self._at < size:
            unpacker = self._unpacker
            raw = unpacker.unconsumed_tail or self._file.read(_CHUNK)
            made = unpacker.decompress(raw, _CHUNK)
            if not raw and not made:
                raise EOFError
            self._made, self._at = self._made[self._at :] + made, 0
        self._at += size
        return self._made[self._at - size : self._at]


def _unpack(read: _ArchiveReader, folder: str, path: str) -> None:
    left = list(SIZES)
    while left:
        (length,) = _FILE.unpack(read(_FILE.size))
        name = read(length).decode("latin-1")
        if name not in left:
            raise EOFError
        del left[: left.index(name) + 1]  # in this order, so each at most once
        size, count = _SIZES.unpack(read(_SIZES.size))
        if size > SIZES[name]:
            raise UnfitError(too_large(f"{path}: {name}", SIZES[name]))
        if count > MAX_PIECES:
            raise EOFError
        with open(os.path.join(folder, name), "wb") as file:
            file.truncate(size)
            end = 0
            for _ in range(count):
                at, length = _SIZES.unpack(read(_SIZES.size))
                if not end <= at <= at + length <= size:
                    raise EOFError
                end = at + length
                file.seek(at)
                while length:
                    length -= file.write(read(min(length, _CHUNK)))
