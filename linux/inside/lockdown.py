# SPDX-License-Identifier: GPL-2.0-or-later
"""Notes what a kernel that is locked down refuses, for the calls that fail by it.

Such a call fails with EPERM, or the verifier says that a program cannot use a helper.
The board stops where the kernel asks whether something is locked down.
Kernel: kernel_lockdown(7), lockdown_is_locked_down()
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from kpfs.linux.inside.failed_call import FailedCall, Opened
from kpfs.linux.memory.lockdown import TRACEFS, LockdownState
from kpfs.linux.memory.stack import stack_size

if TYPE_CHECKING:
    from kpfs.linux.running.kernel_on_board import KernelOnBoard

_REFUSED = errno.EPERM, errno.EACCES
_HELPER = "helper", "unknown func"  # in what the verifier says of one


class Lockdown:
    """The refusals of a kernel's lockdown, by the stacks of tasks."""

    def __init__(self, kernel: KernelOnBoard) -> None:
        self._board = kernel.machine.board
        self._state = LockdownState(kernel.memory, kernel.structures)
        self.places = [
            each.addr for each in kernel.symbols.lookup_name("security_locked_down")
        ]
        self._refused: dict[int, str] = {}  # by stacks, until the call has failed

    def _stack(self) -> int:
        arch = self._board.arch
        return (self._board.read_reg(arch.stack_pointer) - 1) // stack_size(arch.model)

    def ask(self) -> None:
        """Note whether what the kernel asks for is refused.  Raises MemoryFault.

        Context: the board has stopped at one of places.
        """
        asked = self._board.read_reg(self._board.arch.arguments[0]) & 0xFFFFFFFF
        if refusal := self._state.refusal(asked):
            self._refused[self._stack()] = refusal

    def begin(self) -> None:
        """Forget what the running task was refused in an earlier call."""
        self._refused.pop(self._stack(), None)

    def reason(self, call: FailedCall) -> str:
        """Return the lockdown's part in a call that has failed now, "" if none."""
        said = self._refused.pop(self._stack(), "")
        by_helper = any(word in line for line in call.log for word in _HELPER)
        if said and (call.error in _REFUSED or by_helper):
            return said
        return self._of_file(call)

    def _of_file(self, call: FailedCall) -> str:
        """Return the same for a file that is absent: tracefs may be empty so."""
        file = call.words[0] if call.words else None
        if not isinstance(file, Opened) or file.file[:1] == "/":
            return ""
        return self._state.refusal_of(TRACEFS)
