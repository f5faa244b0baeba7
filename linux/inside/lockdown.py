# SPDX-License-Identifier: GPL-2.0-or-later
"""Notes what a kernel that is locked down refuses, for the calls that fail by it.

Such a call fails with EPERM, or the verifier says that a program cannot use a helper.
The board stops where the kernel asks whether something is locked down.
Kernel: kernel_lockdown(7), lockdown_is_locked_down()
"""

from __future__ import annotations

import errno
from functools import cached_property
from typing import TYPE_CHECKING

from kpfs.base.units import WORD
from kpfs.linux.inside.failed_call import FailedCall, Opened
from kpfs.linux.memory.stack import STACK_SIZE

if TYPE_CHECKING:
    from kpfs.linux.running.kernel_on_board import KernelOnBoard

_TRACEFS = "use of tracefs"  # the kernel's words for that part
_MAX_REASONS = 64
_REFUSED = errno.EPERM, errno.EACCES
_HELPER = "helper", "unknown func"  # in what the verifier says of one


class Lockdown:
    """The refusals of a kernel's lockdown, by the stacks of tasks."""

    def __init__(self, kernel: KernelOnBoard) -> None:
        self._board, self._memory = kernel.machine.board, kernel.memory
        self._symbols = kernel.symbols
        self.places = [
            each.addr for each in kernel.symbols.lookup_name("security_locked_down")
        ]
        self._refused: dict[int, str] = {}  # by stacks, until the call has failed

    def _level(self) -> int:
        """Return how far the kernel is locked down, 0 if it is not."""
        at = self._level_at
        return int.from_bytes(self._memory.read(at, 4), "little") if at else 0

    @cached_property
    def _level_at(self) -> int:  # a symbol takes a millisecond to find
        return self._symbols.address("kernel_locked_down")

    def _words(self, number: int) -> str:
        at = self._symbols.address("lockdown_reasons")
        return self._memory.string(self._memory.word(at + WORD * number)) if at else ""

    def _sentence(self, number: int, level: int) -> str:
        what = self._words(number)
        return f"the kernel is locked down ({self._words(level)}), so: no {what}"

    def _stack(self) -> int:
        return (self._board.read_reg(self._board.arch.stack_pointer) - 1) // STACK_SIZE

    def ask(self) -> None:
        """Note whether what the kernel asks for is refused.  Raises MemoryFault.

        Context: the board has stopped at one of places.
        """
        asked = self._board.read_reg(self._board.arch.arguments[0]) & 0xFFFFFFFF
        level = self._level()
        if level >= asked:
            self._refused[self._stack()] = self._sentence(asked, level)

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
        level, file = self._level(), call.words[0] if call.words else None
        if not (level and isinstance(file, Opened)) or file.file[:1] == "/":
            return ""
        for number in range(1, min(level, _MAX_REASONS) + 1):
            if self._words(number) == _TRACEFS:
                return self._sentence(number, level)
        return ""
