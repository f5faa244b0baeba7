# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel that has a command inside, for a debugger and for coverage."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kpfs.backends.linux.coverage import LinuxCoverage
from kpfs.backends.linux.debugged import BoardDebugged
from kpfs.base.errors import KernelError
from kpfs.gdb.debugged import Command
from kpfs.linux.memory.memory import LiveMemory
from kpfs.linux.running.kernel_on_board import KernelOnBoard
from kpfs.linux.running.saved_kernel import SavedKernel

if TYPE_CHECKING:
    from kpfs.gdb.debugged import GoBack
    from kpfs.linux.inside.mounted import PreparedKernel
    from kpfs.linux.memory.modules import LoadedModule


class _Kernel(KernelOnBoard):
    """A kernel that no other one follows.  Whoever runs it takes the lock and keeps it.

    No calls are left out.
    """

    def __init__(self, kernel: PreparedKernel) -> None:
        super().__init__(SavedKernel(kernel.folder))  # which keeps its file open
        self.machine = kernel.loop.machine
        self.memory = LiveMemory(self.machine.board)
        self._own: frozenset[int] = frozenset()  # modules for the host's files
        self._own = frozenset(module.address for module in self.modules())

    def modules(self) -> list[LoadedModule]:
        """Return the modules that were loaded since then."""
        return [each for each in super().modules() if each.address not in self._own]


class InsideDebugged(BoardDebugged):
    """Implements Debugged."""

    def __init__(self, kernel: PreparedKernel) -> None:
        super().__init__(_Kernel(kernel))

    def keep(self) -> GoBack:
        raise KernelError(errno.EOPNOTSUPP, "the command inside uses the host's files")

    def commands(self) -> Mapping[str, Command]:
        """Return those that are refused at once, as something always runs."""

        def refuse() -> str:
            self.keep()
            return ""

        refused = Command("not with a command inside", refuse)
        return {"snapshot": refused, "restore": refused}


def coverage(kernel: PreparedKernel, *, of_kernel: bool) -> LinuxCoverage:
    """Record what is reached from now on; KernelError: this kernel cannot."""
    return LinuxCoverage(_Kernel(kernel), of_kernel=of_kernel)
