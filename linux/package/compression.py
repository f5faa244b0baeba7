# SPDX-License-Identifier: GPL-2.0-or-later
"""Undoes the compressions of kernels, modules and packages, without programs of hosts.

LZ4 is undone by emulator/lz4.c, the others by Python's modules and a package.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from kpfs.base.data_model import LITTLE_64
from kpfs.linux.errors import UnfitError

if TYPE_CHECKING:
    import ctypes

MAX_UNPACKED = 1 << 30  # bytes, of which no kernel's package has half
MAX_DICTIONARY = 512 << 20  # bytes of memory for xz; kernels need 130 MB at most
XZ, ZSTD = b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"
_ZSTD_FRAMES = 1 << 12
_ZSTD_PIECE = 4 << 10  # bytes to feed at once: they become 128 MiB at most
_LZ4_ROOM = 8 << 20  # bytes in a block
_LZ4_WRONG = {-1: "is damaged", -2: "ends too early"}
_LZ4_BLOCK = _LZ4_ROOM + _LZ4_ROOM // 255 + 16  # Kernel: lz4_compressbound()


class _Unpacker(Protocol):
    """A decompressor of the standard library."""

    @property
    def eof(self) -> bool: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def decompress(data: bytes, what: str, limit: int = MAX_UNPACKED) -> bytes:
    """Return what data contain, by the compression that their first bytes tell.

    what: the name of the data in errors.  Raises UnfitError if the data are damaged or
    packed in an unknown way, or contain more bytes than limit.
    """
    for method in _METHODS:
        if data.startswith(method.magic):
            try:
                found = method.unpack(data, limit + 1)
            except ValueError as error:
                raise UnfitError(f"{what} is damaged: {error}") from None
            if len(found) > limit:
                raise UnfitError(too_large(what, limit))
            return found
    first = data[:4].hex()
    raise UnfitError(f"{what} is damaged, or packed in an unknown way ({first})")


def too_large(what: str, limit: int = MAX_UNPACKED) -> str:
    """Return what is said of data that unpack to more bytes than limit."""
    return f"{what} is damaged: it holds more than any kernel ({limit >> 20} MiB)"


def zstd_packer(level: int) -> Callable[[bytes], bytes]:
    """Return a function that packs data by zstd, for decompress()."""
    import zstandard

    return zstandard.ZstdCompressor(level).compress


# ---- one function for each compression: at most room bytes; ValueError: damaged
def _by_library(
    unpacker: _Unpacker, data: bytes, room: int, error: type[Exception]
) -> bytes:
    try:
        found = unpacker.decompress(data, room)
    except error as why:
        raise ValueError(str(why)) from None
    if not unpacker.eof and len(found) < room:
        raise ValueError("it ends too early")
    return found


def _xz(data: bytes, room: int) -> bytes:
    import lzma

    unpacker = lzma.LZMADecompressor(memlimit=MAX_DICTIONARY)
    return _by_library(unpacker, data, room, lzma.LZMAError)


def _gzip(data: bytes, room: int) -> bytes:
    import zlib

    return _by_library(zlib.decompressobj(31), data, room, zlib.error)


def _bzip2(data: bytes, room: int) -> bytes:
    import bz2

    return _by_library(bz2.BZ2Decompressor(), data, room, OSError)


def _zstd(data: bytes, room: int) -> bytes:
    import zstandard

    found, at, frames = bytearray(), 0, 0
    # several frames may follow one another
    while data.startswith(ZSTD, at) and len(found) < room:
        frames += 1
        if frames > _ZSTD_FRAMES:
            raise ValueError("it has too many parts")
        frame = zstandard.ZstdDecompressor().decompressobj()
        while not frame.eof and len(found) < room:
            piece = data[at : at + _ZSTD_PIECE]
            if not piece:
                raise ValueError("it ends too early")
            try:
                found += frame.decompress(piece)
            except zstandard.ZstdError as error:
                raise ValueError(str(error)) from None
            at += len(piece)
        at -= len(frame.unused_data)
    return bytes(found[:room])


def _lz4(data: bytes, room: int) -> bytes:
    """Kernel: unlz4()"""
    import ctypes

    unpacked = ctypes.create_string_buffer(_LZ4_ROOM)
    found, at = bytearray(), 4
    # a kernel's size stands behind its blocks
    while at + 4 < len(data) and len(found) < room:
        size = LITTLE_64.number(data[at : at + 4])
        at += 4
        block = data[at : at + size]
        if size > _LZ4_BLOCK or len(block) < size:
            raise ValueError("it ends too early")
        count = _unpack_lz4()(block, size, unpacked, _LZ4_ROOM)
        if count < 0:
            raise ValueError(f"an LZ4 block {_LZ4_WRONG[count]}")
        found += memoryview(unpacked)[:count]
        at += size
    return bytes(found[:room])


@cache
def _unpack_lz4() -> Callable[[bytes, int, ctypes.Array[ctypes.c_char], int], int]:
    """Return the function of emulator/lz4.c."""
    import ctypes

    from kpfs.emulator import libunicorn

    _, library = libunicorn.load()
    if library is None:
        raise UnfitError("there is no library of kpfs for this host's processor")
    found = library.unpack_lz4
    found.argtypes = ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64
    found.restype = ctypes.c_int64
    return cast("Callable[..., int]", found)


class _Method(NamedTuple):
    magic: bytes
    unpack: Callable[[bytes, int], bytes]


_METHODS = (
    _Method(XZ, _xz),
    _Method(b"\x5d\0\0", _xz),  # LZMA alone, which the same class knows
    _Method(b"\x1f\x8b", _gzip),
    _Method(b"BZh", _bzip2),
    _Method(ZSTD, _zstd),
    _Method(b"\x02\x21\x4c\x18", _lz4),
)
