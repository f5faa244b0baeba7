# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds instructions.c, and compares what its programs did on two processors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from kpfs.linux.make import cpio
from tests import harness
from tests.programs import program
from tests.qemu import QemuKernel

OPTIONS = "-nostdlib -static -no-pie -fno-pie -fno-stack-protector"
TIMEOUT = 10 * harness.TIMEOUT
SEGV = re.compile(r"\w+ (status|signal) b\b")
# a signal by the kernel itself, where versions differ, and a general protection:
# libunicorn knows no limits of segments, and sees an address that is not canonical when
# it fetches there
VAGUE = re.compile(r"\w+ (status b$|signal b code 80 |signal b .* trap [0d] )")
WRITES = re.compile(r"(trap e error )\w+")  # what reads and writes may fault as a read
LINE = re.compile(r"\w+ (signal|status|stepped) .*")


class Target(NamedTuple):
    """An architecture's programs, a Linux kernel for them, and what runs them right."""

    name: str
    kernel: str
    options: str
    prefix: str = ""  # begins the compiler's name
    qemu: bool = False  # else this host runs them


X86_64 = Target("x86-64", harness.KERNEL, "-m64 -fcf-protection=none")
I386 = Target("i386", harness.KERNEL, "-m32 -fcf-protection=none")
ARM64 = Target("arm64", harness.ARM64, "", "aarch64-linux-gnu-", True)
RISCV64 = Target(
    *("riscv64", harness.RISCV64, "-Wl,--no-relax"),
    *("riscv64-linux-gnu-", True),
)
TARGETS = X86_64, I386, ARM64, RISCV64


def build(target: Target, folder: Path) -> Path:
    """Build a target's programs; a skip where no compiler can."""
    words = f"{OPTIONS} {target.options}".split()
    return program("instructions", folder, target.prefix, *words)


class Qemu:
    """A machine in QEMU, whose kernel runs a target's programs and nothing else."""

    def __init__(self, target: Target, programs: Path) -> None:
        """Fetch the kernel.  Raises NotHereError."""
        self.kernel = QemuKernel(target.kernel, programs.parent)
        self.initrd = programs.with_name("initrd")
        first = cpio.CpioEntry("init", cpio.PROGRAM, programs.read_bytes())
        self.initrd.write_bytes(cpio.archive([first]))

    def said(self, first: int, count: int) -> str:
        """Return the lines of some programs."""
        append = f"norandmaps -- {first} {count}"
        console = self.kernel.said(self.initrd, append, TIMEOUT)
        return "\n".join(match[0] for match in LINE.finditer(console))


def on_host(programs: Path, first: int, count: int) -> str:
    words = "setarch", "-R", programs, str(first), str(count)
    return harness.run(*words, timeout=TIMEOUT).stdout


def inside(
    kpfs: harness.Kpfs, kernel: str, programs: Path, first: int, count: int
) -> str:
    words = "--kernel", kernel, "--inside", "--", programs, str(first), str(count)
    return kpfs("run", *words, timeout=TIMEOUT).stdout


def differences(right: str, found: str) -> list[str]:
    """Return the lines of a processor that another's do not equal, in pairs."""
    pairs = zip(right.splitlines(), found.splitlines(), strict=True)
    return [f"{a}\n{b}" for a, b in pairs if a != b and not _alike(a, b)]


def _alike(right: str, found: str) -> bool:
    if VAGUE.match(right):
        return SEGV.match(found) is not None
    return WRITES.sub(r"\1", right) == WRITES.sub(r"\1", found)
