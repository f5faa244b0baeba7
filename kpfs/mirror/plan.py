# SPDX-License-Identifier: GPL-2.0-or-later
"""A mirrored system call as the guest gets it: guest/src/fs/mirror.c.

What the call finds on the host goes into struct mirror_call, its strings and data into
the user memory of the task that makes it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kpfs.base import abi

if TYPE_CHECKING:
    from kpfs.guest.machine import Guest
    from kpfs.guest.running.syscalls import HostTask

_MIRROR_CALL = abi.MirrorCall.STRUCT
_NAMES = struct.Struct("<4I")
_NO_NAMES = bytes(_NAMES.size)
_NR_ARGS = 6
_NO_ARGS = (0,) * _NR_ARGS
# by a set of arguments as bits: their numbers
_MEMBERS = [
    tuple(n for n in range(_NR_ARGS) if bits >> n & 1) for bits in range(1 << _NR_ARGS)
]
_CWD_AT = 256  # where the working directory's path stands, behind the structure
PATH_MAX = 4096
_LINK_AT = _CWD_AT + PATH_MAX + 1  # and what is read of a link
_BLOCK_SIZE = _LINK_AT + PATH_MAX + 1
DATA_MAX = 4096  # bytes of a write that the guest sees
MAX_FD = abi.MIRROR_MAX_FD
BUSY = abi.MIRROR_BUSY


class Plan:
    """One call, with everything that is known before the kernel is asked.

    Pointers are offsets into ``memory``, which is what the task's user memory will
    begin with; USER_BUFFER in it is what the call may write to.
    """

    # what most calls leave as it is
    pointers = 0  # bit n: args[n] is an offset into the user memory
    count = 0  # bytes that a read or write moves
    text: bytes | None = None  # the call's first path, as the host has it
    cwd = b""
    link = b""  # what the symbolic link has that is read
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
        """Put data into the user memory: its offset there, a multiple of 8."""
        offset = len(self.memory)
        self.memory += data
        self.memory += bytes(-len(self.memory) % 8)
        return offset

    def point(self, index: int, offset: int) -> None:
        """Make an argument an address in the user memory."""
        self.pointers |= 1 << index
        self.args[index] = offset

    def add_vector(self, words: list[int]) -> int:
        """Put an array of pointers there, -1 standing for NULL: its offset."""
        start = len(self.memory)
        self.relocations += [start + 8 * i for i, word in enumerate(words) if word >= 0]
        return self.place(struct.pack(f"<{len(words)}Q", *(max(w, 0) for w in words)))


class MirrorGuest:
    """Makes planned calls in the guest.  Context: control, lock held."""

    def __init__(self, guest: Guest) -> None:
        """KeyError where the guest's image has no mirror_syscall()."""
        func = guest.address_of("mirror_syscall")
        if func is None:
            raise KeyError("mirror_syscall")
        self._guest = guest
        self._block = guest.area.alloc_data(_BLOCK_SIZE)
        self._call = guest.syscalls.prepare(func, self._block)
        self._view = guest.view(self._block, _BLOCK_SIZE)
        self._memory: dict[int, memoryview] = {}  # the tasks' user memory, by address

    def call(self, task: HostTask, plan: Plan, wait: bool = True) -> int:
        """Make the call as the task: its value, -errno.

        BUSY, with wait: nothing was done, as the mount has yet to close what is where
        a new descriptor is to be.
        """
        args = [*plan.args, *_NO_ARGS[len(plan.args) :]]
        if plan.pointers:
            user = task.user
            self._fill(user, plan)
            for index in _MEMBERS[plan.pointers]:
                args[index] += user
        cwd = self._place(_CWD_AT, plan.cwd) if plan.cwd else 0
        link = self._place(_LINK_AT, plan.link) if plan.link else 0
        fd0 = fd1 = new0 = new1 = -1
        mode0 = mode1 = 0
        if plan.fds:
            (fd0, mode0), *more = plan.fds
            if more:
                fd1, mode1 = more[0]
        if plan.new_fds:
            new0, new1, *_ = *plan.new_fds, -1
        _MIRROR_CALL.pack_into(
            self._view, 0,
            plan.nr, *args, plan.count, cwd, plan.paths, link, plan.mount, wait,
            fd0, fd1, mode0, mode1, plan.spare_fd, new0, new1,
            _pack_names(plan.names) if plan.names else _NO_NAMES,
        )  # fmt: skip
        return self._guest.syscalls.call_prepared(task, self._call)

    def _place(self, at: int, text: bytes) -> int:
        """Put a path into the block: its address."""
        path = text[:PATH_MAX] + b"\0"
        self._view[at : at + len(path)] = path
        return self._block + at

    def _fill(self, user: int, plan: Plan) -> None:
        """Put the plan's memory where the task's is."""
        memory = plan.memory
        if not memory:
            return
        for at in plan.relocations:
            word = int.from_bytes(memory[at : at + 8], "little") + user
            memory[at : at + 8] = word.to_bytes(8, "little")
        plan.relocations = []
        view = self._memory.get(user)
        if view is None:
            view = self._memory[user] = self._guest.view(user, abi.USER_SIZE)
        size = min(len(memory), abi.USER_SIZE)
        view[:size] = memory[:size]


def _pack_names(names: list[tuple[int, int]]) -> bytes:
    """Pack the names of struct mirror_call."""
    first, second, *_ = *names, (0, 0)
    return _NAMES.pack(*first, *second)
