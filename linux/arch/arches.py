# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of architectures that Linux kernels run on here."""

from __future__ import annotations

from kpfs.linux.arch.arch import LinuxArch
from kpfs.linux.arch.arm64 import LinuxArm64
from kpfs.linux.arch.armhf import LinuxArmhf
from kpfs.linux.arch.i386 import LinuxI386
from kpfs.linux.arch.mips64 import LinuxMips64
from kpfs.linux.arch.ppc64 import LinuxPpc64
from kpfs.linux.arch.riscv64 import LinuxRiscv64
from kpfs.linux.arch.s390x import LinuxS390x
from kpfs.linux.arch.x86 import LinuxX86

X86_64, ARM64, RISCV64, S390X = LinuxX86(), LinuxArm64(), LinuxRiscv64(), LinuxS390x()
PPC64, ARMHF, I386, MIPS64 = LinuxPpc64(), LinuxArmhf(), LinuxI386(), LinuxMips64()
# as packages and container images call them; the names of kernels end so, but for one
DEFAULT = "amd64"
PACKAGED: dict[str, LinuxArch] = {
    "amd64": X86_64, "arm64": ARM64, "riscv64": RISCV64, "s390x": S390X,
    "ppc64el": PPC64, "armhf": ARMHF, "i386": I386, "mips64el": MIPS64,
}  # fmt: skip
ARCHES: dict[str, LinuxArch] = {arch.name: arch for arch in PACKAGED.values()}


def split_name(name: str) -> tuple[str, str]:
    """Return a kernel's name without its architecture, and that, as packages have it.

    6.12-cloud-arm64 is 6.12-cloud for arm64, and 6.12-cloud is for amd64.
    """
    rest, _, last = name.rpartition("-")
    named = rest and last in PACKAGED and last != DEFAULT
    return (rest, last) if named else (name, DEFAULT)
