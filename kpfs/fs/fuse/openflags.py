# SPDX-License-Identifier: GPL-2.0-or-later
"""Flags of open(2), which not all architectures number alike: the guest has x86-64's.

Kernel: arch/arm64/include/uapi/asm/fcntl.h, include/uapi/asm-generic/fcntl.h
"""

from __future__ import annotations

import os

from kpfs.base import syscall_numbers as nr
from kpfs.base.typed import TYPE_CHECKING
from kpfs.fs.tree import E, F, Tree

if TYPE_CHECKING:
    from kpfs.base.fuse_wire import ReadRequest, WriteRequest
    from kpfs.fs.fuse.loop import Request

# O_DIRECTORY, O_NOFOLLOW, O_DIRECT and O_LARGEFILE: as the host has them, and the guest
_OTHERS = {
    "aarch64": (
        (0o40000, 0o200000),
        (0o100000, 0o400000),
        (0o200000, 0o40000),
        (0o400000, 0o100000),
    )
}
MACHINE = os.uname().machine


def guest_flags(flags: int, machine: str = MACHINE) -> int:
    """Translate flags of open(2) from the host's numbers to the guest's."""
    others = _OTHERS.get(machine)
    if others is None:
        return flags
    kept = flags & ~sum(host for host, _ in others)
    return kept | sum(guest for host, guest in others if flags & host)


def follow_flags(
    tree: Tree[E, F], request: Request, file: F, asked: ReadRequest | WriteRequest
) -> None:
    """Give an open file the flags that fcntl(2) has given it since the last request.

    Linux does not tell of fcntl(2), but says in each READ and WRITE what there is.
    """
    flags = guest_flags(asked.open_flags)
    if (flags ^ file.flags) & nr.SETFL_MASK:
        tree.set_flags(request.caller, file, flags)
