# SPDX-License-Identifier: GPL-2.0-or-later
"""Takes an Image apart, the file of a kernel for another architecture than x86-64.

Kernel: Documentation/arch/arm64/booting.rst,
Documentation/arch/riscv/boot-image-header.rst, libstub/zboot-header.S
"""

from __future__ import annotations

import contextlib
import re
from typing import NamedTuple

from kpfs.base.data_model import BIG_64, LITTLE_64
from kpfs.base.elf import EM_MIPS, EM_PPC64, ElfFile
from kpfs.base.errors import KernelError
from kpfs.linux.arch.arch import LinuxArch
from kpfs.linux.arch.arches import ARM64, ARMHF, MIPS64, PPC64, RISCV64, S390X
from kpfs.linux.errors import UnfitError
from kpfs.linux.package.bzimage import MAX_VMLINUX, is_release
from kpfs.linux.package.compression import decompress

_OFFSETS = LITTLE_64.struct("8xQQ")  # text_offset, image_size
_MAGIC_AT, _MAGICS = 56, {b"ARMd": ARM64, b"RSC\x05": RISCV64}
_ZBOOT_AT, _ZBOOT, _PAYLOAD = 4, b"zimg", LITTLE_64.struct("8xII")
_GZIP = b"\x1f\x8b"
# s390x: where its raw image says what it is, and where its release stands
_S390_AT, _S390, _S390_RELEASE_AT = 0x10008, b"S390EP", 0x10428
# ppc64el: vmlinux itself; mips64el: a program that unpacks the kernel behind it
_ELF = b"\x7fELF\x02\x01"
_ENTRY_AT, _LOADED = 24, 0x1FFF_0000
# armhf: a program that unpacks the kernel behind it; what this is linked for, its code
# tells: sub r8, r8, #TEXT_OFFSET
_ZIMAGE_AT, _ZIMAGE, _HEAD = 0x24, b"\x18\x28\x6f\x01", 4096
_PACKED = re.compile(rb"\xfd7zXZ\0|\x1f\x8b\x08|\x28\xb5\x2f\xfd")
_SUB_R8, _ROTATION, _IMMEDIATE = 0xE2488, 7, 0xFF
_RELEASE = re.compile(rb"Linux version (\S+)")


class KernelImage(NamedTuple):
    release: str  # as uname -r says it
    image: bytes
    text_offset: int
    size: int  # in memory
    arch: LinuxArch


def unpacked(data: bytes) -> bytes:
    """Return an Image, which may be packed by gzip or as an EFI program."""
    if packed_arch(data):
        return _payload(data)
    if data[_ZBOOT_AT : _ZBOOT_AT + 4] == _ZBOOT and len(data) >= _PAYLOAD.size:
        offset, size = _PAYLOAD.unpack_from(data)
        data = data[offset : offset + size]
    elif not data.startswith(_GZIP):
        return data
    return decompress(data, "the kernel's file", MAX_VMLINUX)


def _payload(data: bytes) -> bytes:
    """Return what a program unpacks, behind code that names magic numbers, too."""
    for found in _PACKED.finditer(data, _HEAD):
        with contextlib.suppress(UnfitError):
            image = decompress(data[found.start() :], "", MAX_VMLINUX)
            if len(image) > len(data):
                return image
    raise UnfitError("the kernel's file is damaged, or packed in an unknown way")


def packed_arch(data: bytes) -> LinuxArch | None:
    """Return the architecture of a kernel that unpacks itself; None for another."""
    if data[_ZIMAGE_AT : _ZIMAGE_AT + len(_ZIMAGE)] == _ZIMAGE:
        return ARMHF
    return MIPS64 if _machine(data) == EM_MIPS else None


def _machine(data: bytes) -> int | None:
    """Return the machine of an ELF file of 64 bits, little-endian; None for another."""
    return LITTLE_64.number(data[18:20]) if data[: len(_ELF)] == _ELF else None


def arch_of(data: bytes) -> LinuxArch | None:
    """Return the architecture of an unpacked Image; None if it is none."""
    if data[_S390_AT : _S390_AT + len(_S390)] == _S390:
        return S390X
    if _machine(data) == EM_PPC64:
        return PPC64
    return _MAGICS.get(data[_MAGIC_AT : _MAGIC_AT + 4])


def parse(data: bytes, arch: LinuxArch, packed: bytes = b"") -> KernelImage:
    """Return the parts of an unpacked Image.  Raises UnfitError if it is damaged.

    packed: the program that unpacks it, where there is one.
    """
    if arch is PPC64:
        data, text_offset = _in_memory(data), 0
        size, found = len(data), _RELEASE.search(data)
    elif arch is ARMHF:
        text_offset, size = _text_offset(data), len(data)
        found = _RELEASE.search(data)
    elif arch is MIPS64:
        size, found = len(data), _RELEASE.search(data)
        # the program itself begins behind it
        entry = LITTLE_64.number(packed[_ENTRY_AT : _ENTRY_AT + 8])
        text_offset = entry - size & _LOADED
    elif arch is S390X:
        place = BIG_64.number(data[_S390_RELEASE_AT : _S390_RELEASE_AT + 8])
        text_offset, size = 0, len(data)
        found = re.compile(rb"([^\s\0]+)").match(data, place)
    else:
        text_offset, size = _OFFSETS.unpack_from(data)
        found = _RELEASE.search(data)
    release = found[1].decode("latin-1") if found else ""
    if not is_release(release) or size < len(data) >> 1:
        raise UnfitError("the kernel's file is damaged")
    return KernelImage(release, data, text_offset, size, arch)


def _text_offset(data: bytes) -> int:
    """Return where a kernel of armhf has to lie, from the begin of RAM."""
    for word in LITTLE_64.array("I", data[:_HEAD]):
        if word >> 12 == _SUB_R8:
            rotation = word >> _ROTATION & 30
            immediate = word & _IMMEDIATE
            return immediate >> rotation | immediate << 32 - rotation & 0xFFFF_FFFF
    raise UnfitError("the kernel's file is damaged")


def _in_memory(data: bytes) -> bytes:
    """Return an ELF file's segments as they lie in memory, from address 0."""
    try:
        segments = ElfFile(data, EM_PPC64).segments
    except KernelError as error:
        raise UnfitError(f"the kernel's file is damaged: {error}") from None
    end = max((one.paddr + one.memsz for one in segments), default=0)
    if not 0 < end <= MAX_VMLINUX:
        raise UnfitError("the kernel's file is damaged")
    memory = bytearray(end)
    for one in segments:
        memory[one.paddr : one.paddr + one.filesz] = data[
            one.offset : one.offset + one.filesz
        ]
    return bytes(memory[:end])
