# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel as distributions ship it: a bzImage, whose payload is a compressed ELF file.

Kernel: Documentation/arch/x86/boot.rst
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import NamedTuple

from kpfs.linux.errors import UnfitError

_SETUP_SECTS, _HEADER, _MAGIC = 0x1F1, 0x1F1, 0x202
_JUMP = 0x201  # its operand says where the header ends
_VERSION = 0x20E
_PAYLOAD = 0x248
_END = _PAYLOAD + 8
_RELEASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~-]{0,63}")
SECTOR = 512
MAX_VMLINUX = 1 << 30  # bytes; those with all debugging have a third
TOO_LARGE = "what the kernel's file holds is larger than any kernel"


class BzImage(NamedTuple):
    release: str  # as uname -r says it
    header: bytes  # of the boot protocol, for the boot parameters
    vmlinux: bytes


def parse(data: bytes) -> BzImage:
    """Take it apart; UnfitError where it is none that can be unpacked."""
    if data[_MAGIC : _MAGIC + 4] != b"HdrS":
        raise UnfitError("this is no kernel (bzImage) for x86-64")
    if len(data) < _END:
        raise UnfitError("the kernel's file is cut short")
    setup = ((data[_SETUP_SECTS] or 4) + 1) * SECTOR
    version = struct.unpack_from("<H", data, _VERSION)[0] + SECTOR
    text = data[version : version + 200].split(b"\0")[0].decode("latin-1")
    release = text.split(" ")[0]
    if not is_release(release):
        raise UnfitError("what the kernel's file says of its release is damaged")
    offset, size = struct.unpack_from("<II", data, _PAYLOAD)
    payload = data[setup + offset : setup + offset + size]
    vmlinux = unpack(payload)
    if vmlinux[:4] != b"\x7fELF":
        raise UnfitError("what the kernel's file holds is damaged")
    end = 0x202 + data[_JUMP]
    return BzImage(release, data[_HEADER:end], vmlinux)


def is_release(text: str) -> bool:
    """Whether uname -r can say that; it becomes the name of a folder."""
    return _RELEASE.fullmatch(text) is not None


def unpack(payload: bytes) -> bytes:
    """Undo the compression, which is known by its first bytes; UnfitError."""
    import lzma
    import zlib

    try:
        if payload.startswith(b"\xfd7zXZ\0"):
            return _bounded(lzma.LZMADecompressor().decompress, payload)
        if payload.startswith(b"\x1f\x8b"):
            return _bounded(zlib.decompressobj(31).decompress, payload)
        if payload.startswith(b"\x5d\0\0"):
            lzma_alone = lzma.LZMADecompressor(lzma.FORMAT_ALONE)
            return _bounded(lzma_alone.decompress, payload)
        if payload.startswith(b"BZh"):
            import bz2

            return _bounded(bz2.BZ2Decompressor().decompress, payload)
    except (lzma.LZMAError, zlib.error, OSError) as error:
        raise UnfitError(f"the kernel's file is damaged: {error}") from None
    for magic, command in ((b"\x28\xb5\x2f\xfd", "zstd"), (b"\x02\x21\x4c\x18", "lz4")):
        if payload.startswith(magic):
            return _by_command(command, payload)
    raise UnfitError(f"the kernel is packed in an unknown way ({payload[:4].hex()})")


def _bounded(decompress: Callable[[bytes, int], bytes], payload: bytes) -> bytes:
    found = decompress(payload, MAX_VMLINUX)
    if len(found) >= MAX_VMLINUX:
        raise UnfitError(TOO_LARGE)
    return found


def _by_command(command: str, payload: bytes) -> bytes:
    """By a program of the host: Python's library knows neither."""
    import subprocess
    import tempfile

    if command == "zstd":
        payload = payload[:-4]  # its size stands behind
    with tempfile.TemporaryFile() as packed, tempfile.TemporaryFile() as said:
        packed.write(payload)
        packed.seek(0)
        try:
            unpacker = subprocess.Popen(
                [command, "-dcq"], stdin=packed, stdout=subprocess.PIPE, stderr=said
            )
        except FileNotFoundError:
            raise UnfitError(
                f"the kernel is packed by {command}, which is missing (Debian: apt "
                f"install {command})"
            ) from None
        with unpacker:
            assert unpacker.stdout
            found = unpacker.stdout.read(MAX_VMLINUX)
            unpacker.kill()  # if it has more
        if len(found) >= MAX_VMLINUX:
            raise UnfitError(TOO_LARGE)
        if not found:
            said.seek(0)
            why = said.read().decode(errors="replace").strip()
            raise UnfitError(f"{command}: {why}")
    return found
