# SPDX-License-Identifier: GPL-2.0-or-later
"""A mirrored system call as it is planned for a task of the emulated kernel."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kpfs.base import abi

DATA_MAX = 4096  # bytes of a write that the guest sees
MAX_FD = abi.MIRROR_MAX_FD


class Plan:
    """One call, with everything that is known before the kernel is asked.

    Pointers are offsets into ``memory``, which is what the task's user memory will
    begin with; USER_BUFFER in it is what the call may write to.
    """

    # attributes that most calls leave as they are
    pointers = 0  # bit n: args[n] is an offset into the user memory
    count = 0  # bytes that a read or write moves
    text: bytes | None = None  # the call's first path, as the host has it
    cwd = b""
    link = b""  # the contents of the symbolic link that is read
    spare_fd = -1  # closed or replaced
    paths = False
    mount = False  # it closes a descriptor of a file of the mount

    def __init__(self, nr: int, args: Sequence[int] = ()) -> None:
        """args: as the host has them, so numbers but for what is changed later."""
        self.nr = nr
        self.args = list(args)
        self.memory = bytearray()
        self.relocations: list[int] = []  # words in memory that are offsets, likewise
        self.fds: list[tuple[int, int]] = []  # used: number, mode
        self.new_fds: list[int] = []  # will be made
        self.names: list[tuple[int, int]] = []  # components, mode

    def place(self, data: bytes) -> int:
        """Put data into the user memory; return its offset there, a multiple of 8."""
        offset = len(self.memory)
        self.memory += data
        self.memory += bytes(-len(self.memory) % 8)
        return offset

    def point(self, index: int, offset: int) -> None:
        """Make an argument an address in the user memory."""
        self.pointers |= 1 << index
        self.args[index] = offset

    def add_vector(self, words: list[int]) -> int:
        """Put an array of pointers there, -1 standing for NULL; return its offset."""
        start = len(self.memory)
        self.relocations += [start + 8 * i for i, word in enumerate(words) if word >= 0]
        return self.place(struct.pack(f"<{len(words)}Q", *(max(w, 0) for w in words)))
