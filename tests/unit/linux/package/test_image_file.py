# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of kernels for arm64, riscv64, s390x, ppc64el and armhf that are made up here.

Tests kpfs.linux.package.kernel_file.
"""

import gzip
import lzma
import struct
from typing import Any

import pytest

from kpfs.linux.arch.arches import ARM64, ARMHF, MIPS64, PPC64, RISCV64, S390X
from kpfs.linux.errors import UnfitError
from kpfs.linux.package import kernel_file
from kpfs.linux.package.image_file import KernelImage

BANNER = b"Linux version 6.12.0-1-cloud-arm64 (somebody)\0"


def image(banner=BANNER, size=1 << 20, magic=b"ARMd"):
    head = struct.pack("<8xQQ32x4s4x", 0x80000, size, magic)
    return head + bytes(64) + banner


def zboot(payload):
    """An EFI program with a packed kernel in it."""
    return struct.pack("<4s4sII16x", b"MZ", b"zimg", 32, len(payload)) + payload


@pytest.mark.parametrize(
    "data",
    [image(), gzip.compress(image(), mtime=0), zboot(gzip.compress(image(), mtime=0))],
)
def test_its_parts(data):
    found = kernel_file.parse(data)
    assert isinstance(found, KernelImage)
    assert found.arch is ARM64
    assert found.release == "6.12.0-1-cloud-arm64"
    assert (found.image, found.text_offset, found.size) == (image(), 0x80000, 1 << 20)


def test_a_kernel_of_mips64el_lies_before_the_program_that_unpacks_it():
    kernel = BANNER.ljust(0x2_1234, b"\0")
    place = b"\x7fELF\x02\x01", 8, 0xFFFF_FFFF_8414_0000
    head = struct.pack("<6s12xH4xQ", *place).ljust(5000, b"\0")
    data = head + b"\xfd7zXZ\0 said" + lzma.compress(kernel)
    found = kernel_file.parse(data + b"more")
    assert isinstance(found, KernelImage)
    assert (found.arch, found.image) == (MIPS64, kernel)
    assert found.text_offset == 0x411_0000
    with pytest.raises(UnfitError, match="damaged"):
        kernel_file.parse(data[:-40])


def test_the_architecture_is_that_of_its_magic():
    assert kernel_file.parse(image(magic=b"RSC\x05")).arch is RISCV64


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (image(banner=b""), "damaged"),
        (image(banner=b"Linux version ../../etc (somebody)"), "damaged"),
        (image(size=8), "damaged"),
        (gzip.compress(image(), mtime=0)[:-20], "damaged"),
        (zboot(b"what"), "damaged"),
        (
            bytes(4096),
            r"no kernel for x86-64 \(bzImage\), arm64, riscv64 or s390x",
        ),
    ],
)
def test_what_is_none(data, why):
    with pytest.raises(UnfitError, match=why):
        kernel_file.parse(data)


def test_a_raw_image_of_s390x():
    data = bytearray(0x30000)
    data[0x10008:0x1000E] = b"S390EP"
    data[0x10428:0x10430] = (0x20000).to_bytes(8, "big")
    data[0x20000:0x20010] = b"6.12.1-s390x (x)"
    found = kernel_file.parse(bytes(data))
    assert (found.arch, found.release) == (S390X, "6.12.1-s390x")
    data[0x20000] = 0
    with pytest.raises(UnfitError, match="damaged"):
        kernel_file.parse(bytes(data))


def zimage(release=b"6.12.1-armmp", sub_r8=0xE2488982, pack=lzma.compress):
    image = bytearray(0x8000)
    image[64:68] = struct.pack("<I", sub_r8)
    image[0x2000:0x2020] = (b"Linux version " + release + b" (x)").ljust(32, b"\0")
    head = bytearray(0x1100)
    head[0x24:0x28] = b"\x18\x28\x6f\x01"
    head[0x1010:0x1016] = b"\xfd7zXZ\0"  # the magic number, in code that unpacks
    return bytes(head) + pack(bytes(image)) + bytes(16)


def test_a_kernel_that_unpacks_itself():
    for pack in (lzma.compress, gzip.compress):
        found: Any = kernel_file.parse(zimage(pack=pack))
        assert found.arch is ARMHF
        assert (found.release, found.text_offset) == ("6.12.1-armmp", 0x208000)
    found = kernel_file.parse(zimage(sub_r8=0xE2488902))
    assert found.text_offset == 0x8000
    for wrong in (zimage(sub_r8=0), zimage(b""), zimage()[:0x1130]):
        with pytest.raises(UnfitError, match="damaged"):
            kernel_file.parse(wrong)


def vmlinux(filesz=64, memsz=4096, paddr=0x100):
    text = b"Linux version 6.12.1-powerpc64le (x)".ljust(64, b"\0")
    head = struct.pack("<16sHHI3QI6H", b"\x7fELF\x02\x01", 2, 21, 1, 0, 64, 0, 0,
                       *(64, 56, 1, 0, 0, 0))  # fmt: skip
    return head + struct.pack("<2I6Q", 1, 7, 120, 0, paddr, filesz, memsz, 0) + text


def test_a_vmlinux_of_ppc64el():
    found: Any = kernel_file.parse(vmlinux())
    assert (found.arch, found.release) == (PPC64, "6.12.1-powerpc64le")
    assert found.image[0x100:0x10D] == b"Linux version"
    assert len(found.image) == found.size == 0x1100


@pytest.mark.parametrize(
    "data", [vmlinux()[:100], vmlinux(memsz=1 << 40), vmlinux(filesz=0)]
)
def test_a_damaged_vmlinux(data):
    with pytest.raises(UnfitError, match="damaged"):
        kernel_file.parse(data)
