# SPDX-License-Identifier: GPL-2.0-or-later
"""Taking a bzImage apart."""

import gzip
import lzma
import struct

import pytest

from kpfs.linux.errors import UnfitError
from kpfs.linux.package import bzimage

ELF = b"\x7fELF" + bytes(range(256)) * 4


def image(payload):
    """Return an image whose setup has two sectors, with a payload in the middle."""
    head = bytearray(3 * bzimage.SECTOR)
    head[0x1F1] = 2
    head[0x201] = 0x6A
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", head, 0x20E, 0x300 - bzimage.SECTOR)
    head[0x300:0x310] = b"6.1.0-9 (who@me)"
    struct.pack_into("<II", head, 0x248, 64, len(payload))
    return bytes(head) + bytes(64) + payload + b"behind"


def test_parts():
    kernel = bzimage.parse(image(gzip.compress(ELF)))
    assert (kernel.release, kernel.vmlinux) == ("6.1.0-9", ELF)
    assert len(kernel.header) == 0x202 + 0x6A - 0x1F1


def test_a_kernel_that_is_too_large(monkeypatch):
    monkeypatch.setattr(bzimage, "MAX_VMLINUX", 1000)
    with pytest.raises(UnfitError, match="more than any kernel"):
        bzimage.parse(image(gzip.compress(ELF)))


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
