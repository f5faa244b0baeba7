# SPDX-License-Identifier: GPL-2.0-or-later
"""Takes a bzImage apart, the file of a kernel with a compressed ELF file in it.

Kernel: Documentation/arch/x86/boot.rst
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kpfs.base.data_model import LITTLE_64
from kpfs.linux.arch.arch import LinuxArch
from kpfs.linux.arch.arches import I386, X86_64
from kpfs.linux.errors import UnfitError
from kpfs.linux.package.compression import decompress

_SETUP_SECTS, _HEADER, _MAGIC = 0x1F1, 0x1F1, 0x202
_JUMP = 0x201  # its operand says where the header ends
_VERSION = 0x20E
_PAYLOAD = 0x248
_END = _PAYLOAD + 8
_RELEASE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~-]{0,63}")
SECTOR = 512
_CLASS, _32_BITS = 4, 1  # EI_CLASS
MAX_VMLINUX = 512 << 20  # bytes; with all debugging information it has 400 MB


class BzImage(NamedTuple):
    arch: LinuxArch
    release: str  # as uname -r says it
    header: bytes  # the boot protocol's, for the boot parameters
    vmlinux: bytes


def parse(data: bytes) -> BzImage:
    """Return the parts. Raises UnfitError if it is no bzImage or cannot be unpacked."""
    if data[_MAGIC : _MAGIC + 4] != b"HdrS":
        raise UnfitError(
            "this is no kernel for x86-64 (bzImage), arm64, riscv64 or s390x "
            "(Image), ppc64el, mips64el (vmlinux, vmlinuz), or armhf (zImage)"
        )
    if len(data) < _END:
        raise UnfitError("the kernel's file is cut short")
    setup = ((data[_SETUP_SECTS] or 4) + 1) * SECTOR
    version = LITTLE_64.struct("H").unpack_from(data, _VERSION)[0] + SECTOR
    text = data[version : version + 200].split(b"\0")[0].decode("latin-1")
    release = text.split(" ")[0]
    if not is_release(release):
        raise UnfitError("what the kernel's file says of its release is damaged")
    offset, size = LITTLE_64.struct("II").unpack_from(data, _PAYLOAD)
    payload = data[setup + offset : setup + offset + size]
    vmlinux = decompress(payload, "the kernel's file", MAX_VMLINUX)
    if vmlinux[:4] != b"\x7fELF":
        raise UnfitError("what the kernel's file holds is damaged")
    end = 0x202 + data[_JUMP]
    arch = I386 if vmlinux[_CLASS] == _32_BITS else X86_64
    return BzImage(arch, release, data[_HEADER:end], vmlinux)


def is_release(text: str) -> bool:
    """Return True if uname -r may say that. It becomes the name of a folder."""
    return _RELEASE.fullmatch(text) is not None
