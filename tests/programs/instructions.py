# SPDX-License-Identifier: GPL-2.0-or-later
"""Builds instructions.c, and compares what its programs did on two processors."""

from __future__ import annotations

import re
from pathlib import Path

from tests.programs import program

WIDTHS = 64, 32
OPTIONS = "-nostdlib -static -no-pie -fno-pie -fno-stack-protector -fcf-protection=none"
SEGV = re.compile(r"\w+ signal b .* trap (\w+) ")
# a signal by the kernel itself, and a general protection: libunicorn knows no limits of
# segments, and sees an address that is not canonical when it fetches from there
VAGUE = {"0", "d"}
WRITES = re.compile(r"(trap e error )\w+")  # what reads and writes may fault as a read


def build(width: int, folder: Path) -> Path:
    """Build the programs for 64 or 32 bits; a skip where no compiler can."""
    return program("instructions", folder, "", f"-m{width}", *OPTIONS.split())


def differences(right: str, found: str) -> list[str]:
    """Return the lines of a processor that another's do not equal, in pairs."""
    pairs = zip(right.splitlines(), found.splitlines(), strict=True)
    return [f"{a}\n{b}" for a, b in pairs if a != b and not _alike(a, b)]


def _alike(right: str, found: str) -> bool:
    segv = SEGV.match(right)
    if segv and segv[1] in VAGUE:
        return SEGV.match(found) is not None
    return WRITES.sub(r"\1", right) == WRITES.sub(r"\1", found)
