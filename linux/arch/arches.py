# SPDX-License-Identifier: GPL-2.0-or-later
"""The table of architectures that Linux kernels run on here."""

from __future__ import annotations

from kpfs.linux.arch.arch import Arch
from kpfs.linux.arch.arm64 import Arm64
from kpfs.linux.arch.riscv64 import Riscv64
from kpfs.linux.arch.x86 import X86

X86_64, ARM64, RISCV64 = X86(), Arm64(), Riscv64()
ARCHES: dict[str, Arch] = {arch.name: arch for arch in (X86_64, ARM64, RISCV64)}
