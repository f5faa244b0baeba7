# SPDX-License-Identifier: GPL-2.0-or-later
"""A mirrored system call as ``plan.c`` plans it for a task of the emulated kernel."""

from __future__ import annotations

import ctypes
import struct

from kpfs.base import abi
from kpfs.base.structures import fields
from kpfs.base.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

DATA_MAX = abi.PLAN_DATA_MAX  # bytes of a write that the guest sees
MAX_FD = abi.MIRROR_MAX_FD


class PlanRow(ctypes.Structure):
    """struct plan_row."""

    new_fds: int
    _fields_ = fields(abi.PlanRow)

    def __init__(self, **values: object) -> None:
        super().__init__(**values)
        self.at = ctypes.addressof(self)


class MirrorCall(ctypes.Structure):
    """struct mirror_call."""

    _fields_ = fields(abi.MirrorCall)


class Plan(MirrorCall):
    """struct plan: one call, with everything that is known before the kernel is asked.

    Pointers are offsets into ``memory``, which is what the task's user memory will
    begin with; USER_BUFFER in it is what the call may write to.
    """

    nr: int
    count: int  # bytes that a read or write moves
    paths: int
    mount: int  # it closes a descriptor of a file of the mount
    spare_fd: int  # closed or replaced
    pointers: int  # bit n: args[n] is an offset into the user memory
    size: int  # bytes of memory
    nr_fds: int
    nr_new: int
    nr_names: int
    left_to_mount: int
    of_mount: int  # a descriptor of it leads to a file of the mount
    failed: int
    unknown: int
    _fields_ = fields(abi.Plan)

    def __init__(self) -> None:
        super().__init__()
        self.view = memoryview(self).cast("B")
        self.relocations: list[int] = []  # words in memory that are offsets, likewise
        self.watched: list[int] = []  # descriptors whose state the call asks for
        # not by reference, which the garbage collector cannot follow back to self
        self.at = ctypes.c_void_p(ctypes.addressof(self))

    @property
    def memory(self) -> memoryview:
        """Return the bytes with which the task's user memory will begin."""
        return self.view[_MEMORY_AT : _MEMORY_AT + self.size]

    @property
    def text(self) -> bytes | None:
        """The call's first path, as the host has it."""
        at = _MEMORY_AT + self.text_at
        return bytes(self.view[at : at + self.text_size]) if self.text_at >= 0 else None

    @property
    def fds(self) -> list[tuple[int, int]]:
        """The descriptors that it uses: number, mode."""
        numbers, modes = self.fd, self.fd_mode
        return [(numbers[i], modes[i]) for i in range(self.nr_fds)]

    @property
    def new_fds(self) -> list[int]:
        """Return the descriptors that the call will make."""
        numbers: list[int] = self.new_fd[: self.nr_new]
        return numbers

    def set_new_fds(self, numbers: Sequence[int]) -> None:
        self.nr_new = len(numbers)
        self.new_fd[: len(numbers)] = numbers

    def path(self, index: int) -> bytes:
        """Return the string that an argument points to; b"" if it is a bad address."""
        if not self.pointers >> index & 1:
            return b""
        text, _, _ = bytes(self.memory[self.args[index] :]).partition(b"\0")
        return text

    def place(self, data: bytes) -> int:
        """Put data into the user memory; return its offset there, a multiple of 8."""
        offset = self.size
        self.size = offset + len(data) + -len(data) % 8
        self.memory[offset:] = data + bytes(-len(data) % 8)
        return offset

    def point(self, index: int, offset: int) -> None:
        """Make an argument an address in the user memory."""
        self.pointers |= 1 << index
        self.args[index] = offset

    def add_vector(self, words: list[int]) -> int:
        """Put an array of pointers there, -1 standing for NULL; return its offset."""
        start = self.size
        self.relocations += [start + 8 * i for i, word in enumerate(words) if word >= 0]
        return self.place(struct.pack(f"<{len(words)}Q", *(max(w, 0) for w in words)))


_MEMORY_AT = abi.Plan.contents
