# SPDX-License-Identifier: GPL-2.0-or-later
"""The command ``kpfs dump``: writes a kernel's dump to a file, without its zeros."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kpfs.base.aside import replacing
from kpfs.base.errors import SetupError, told_to_user
from kpfs.base.signals import raised
from kpfs.base.units import PAGE_SIZE
from kpfs.commands.mount_choice import find_tree

if TYPE_CHECKING:
    from argparse import Namespace

PIECE = 1 << 20


def main(arguments: Namespace) -> int:
    """Write the dump of a mount's kernel; SetupError."""
    tree = find_tree(arguments.dir, "dump")
    with told_to_user(str(tree / "machine/vmcore")):
        core = os.open(tree / "machine/vmcore", os.O_RDONLY)
    try:
        _make(core)
        with told_to_user(arguments.file), raised():
            with replacing(arguments.file, 0o600) as out:
                copy_sparse(core, out.fileno())
    finally:
        os.close(core)
    return 0


def _make(core: int) -> None:
    """Have the kernel's dump made, by the first read; SetupError: there is none."""
    try:
        os.pread(core, 1, 0)
    except OSError as error:
        why = f"no dump can be made of this kernel: {error.strerror}"
        raise SetupError(why) from None


def copy_sparse(source: int, target: int) -> None:
    """Copy a file, leaving holes for pages of zeros; the target is empty."""
    nothing, at = bytes(PAGE_SIZE), 0
    while piece := os.pread(source, PIECE, at):
        for start, end in _runs(piece, nothing):
            done = start
            while done < end:
                done += os.pwrite(target, piece[done:end], at + done)
        at += len(piece)
    os.ftruncate(target, at)


def _runs(piece: bytes, nothing: bytes) -> list[tuple[int, int]]:
    """Return the runs of pages that are not all zeros."""
    if not piece.strip(b"\0"):
        return []
    found: list[tuple[int, int]] = []
    for start in range(0, len(piece), PAGE_SIZE):
        page = piece[start : start + PAGE_SIZE]
        if page == nothing[: len(page)]:
            continue
        begin = found.pop()[0] if found and found[-1][1] == start else start
        found.append((begin, start + len(page)))
    return found
