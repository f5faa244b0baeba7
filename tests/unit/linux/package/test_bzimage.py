# SPDX-License-Identifier: GPL-2.0-or-later
"""Taking a bzImage apart."""

import bz2
import gzip
import lzma
import shutil
import struct
import subprocess

import pytest

from kpfs.linux.errors import UnfitError
from kpfs.linux.package import bzimage

ELF = b"\x7fELF" + bytes(range(256)) * 4


def image(payload):
    """One whose setup is of two sectors, with a payload in the middle."""
    head = bytearray(3 * bzimage.SECTOR)
    head[0x1F1] = 2
    head[0x201] = 0x6A
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", head, 0x20E, 0x300 - bzimage.SECTOR)
    head[0x300:0x310] = b"6.1.0-9 (who@me)"
    struct.pack_into("<II", head, 0x248, 64, len(payload))
    return bytes(head) + bytes(64) + payload + b"behind"


@pytest.mark.parametrize(
    "pack",
    [
        lzma.compress,
        gzip.compress,
        bz2.compress,
        lambda data: lzma.compress(data, lzma.FORMAT_ALONE),
    ],
)
def test_parts(pack):
    kernel = bzimage.parse(image(pack(ELF)))
    assert (kernel.release, kernel.vmlinux) == ("6.1.0-9", ELF)
    assert len(kernel.header) == 0x202 + 0x6A - 0x1F1


def by_program(name):
    """Packed by a program of the host; zstd's size stands behind."""

    def pack(data):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is missing")
        # lz4 as the kernel has it; of zstd the last 4 bytes are the size
        words = {"lz4": ["lz4", "-lcq"], "zstd": ["zstd", "-cq"]}[name]
        packed = subprocess.run(words, input=data, capture_output=True, check=True)
        return packed.stdout + (bytes(4) if name == "zstd" else b"")

    return pack


@pytest.mark.parametrize("name", ["zstd", "lz4"])
def test_parts_that_python_cannot_unpack(name):
    assert bzimage.parse(image(by_program(name)(ELF))).vmlinux == ELF


@pytest.mark.parametrize(
    "pack", [lzma.compress, gzip.compress, bz2.compress, by_program("zstd")]
)
def test_what_has_no_end(monkeypatch, pack):
    monkeypatch.setattr(bzimage, "MAX_VMLINUX", 1000)
    with pytest.raises(UnfitError, match="larger than any kernel"):
        bzimage.parse(image(pack(ELF)))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no kernel"),
        (bytes(4096), "no kernel"),
        (image(b"")[:0x220], "cut short"),
        (image(gzip.compress(ELF)).replace(b"6.1.0-9", b"../../9"), "release"),
        (image(gzip.compress(ELF)).replace(b"6.1.0-9", b"\xff" * 7), "release"),
        (image(gzip.compress(b"not ELF")), "damaged"),
        (image(lzma.compress(ELF)[:20] + b"no"), "damaged"),
        (image(b"PK\3\4"), "unknown way"),
    ],
)
def test_what_is_refused(data, why):
    with pytest.raises(UnfitError, match=why):
        bzimage.parse(data)
