# SPDX-License-Identifier: GPL-2.0-or-later
"""A Linux kernel that runs, and what is known of it, whoever runs it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from kpfs.base.errors import MemoryFault
from kpfs.linux.memory import dmesg
from kpfs.linux.memory.memory import LiveMemory
from kpfs.linux.running.saved_kernel import SavedKernel

if TYPE_CHECKING:
    from kpfs.base.lock import FairLock
    from kpfs.base.skip_policy import SkipPolicy
    from kpfs.linux.board.board import Board
    from kpfs.linux.memory.modules import LoadedModule
    from kpfs.linux.memory.vmlinux import Vmlinux
    from kpfs.linux.running.machine import LinuxMachine
    from kpfs.linux.running.watched import LinuxWatch


class KernelOnBoard:
    """A kernel in a machine.  ``lock`` is held, once, for whatever touches it."""

    machine: LinuxMachine  # another one after a reboot, and so its memory
    memory: LiveMemory

    def __init__(self, saved: SavedKernel) -> None:
        self.saved = saved
        self.folder, self.meta, self.arch = saved.folder, saved.meta, saved.arch
        self.symbols, self.structures = saved.symbols, saved.structures
        self.saved_memory = saved.memory
        self._board_followers: list[Callable[[Board], None]] = []

    # imported when they are first asked for, which a command inside seldom does
    @cached_property
    def lock(self) -> FairLock:
        from kpfs.base.lock import FairLock

        return FairLock()

    @cached_property
    def watch(self) -> LinuxWatch:
        from kpfs.linux.running.watched import LinuxWatch

        return LinuxWatch(self.lock)

    @cached_property
    def skip_policy(self) -> SkipPolicy:
        from kpfs.base.skip_policy import SkipPolicy

        return SkipPolicy(self.watch, self.lock)

    @property
    def vmlinux(self) -> Vmlinux:
        """The kernel's ELF file.  Context: any."""
        return self.saved.vmlinux

    def read_saved(self, at: int, size: int) -> bytes:
        """Return bytes of the image's memory by physical address.  Context: any."""
        return os.pread(self.saved.file.fileno(), size, at)

    def follow_boards(self, follower: Callable[[Board], None]) -> None:
        """Call a function, under the lock, with each board that takes over.

        That is at a reboot, and twice at a restore: before its memory is there, too.
        """
        self._board_followers.append(follower)

    def on_board(self, board: Board) -> None:
        """Tell those that follow of a board.  Context: lock held."""
        for follower in self._board_followers:
            follower(board)

    def dmesg(self, since: int = 0) -> list[dmesg.LogLine]:
        """Return the kernel's log, also of a dead one.  Context: lock held.

        since: number of the first record.
        """
        return dmesg.read_log(self.memory, self.symbols, since)

    def modules(self) -> list[LoadedModule]:
        """Return all modules, also of a dead kernel; [] without BTF.  Lock held."""
        from kpfs.linux.memory.modules import loaded_modules

        try:
            return loaded_modules(self.memory, self.symbols, self.structures)
        except (MemoryFault, KeyError, ValueError):
            return []
