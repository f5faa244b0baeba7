# SPDX-License-Identifier: GPL-2.0-or-later
"""Let time pass quickly while a kernel does nothing but spin.

Two processors that each spin on a lock which the other one has would do so for all of
the time after which a run counts as hung. In the emulator that takes a minute of the
host's time. A loop that waits has an instruction such as PAUSE, and what can end it is
another processor, or time. So when nothing else was seen for a while, the kernel's
clock is set forward: a loop that waits for a moment ends rightly, and a deadlock comes
to the end of its time. All of this is counted in turns of the board, which are the same
in each run of a seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kpfs.base import abi
from kpfs.base.errors import MemoryFault
from kpfs.linux.running.machine import MachineDiedError

if TYPE_CHECKING:
    from kpfs.linux.running.kernel_on_board import KernelOnBoard

_LARGEST = 4096  # bytes of a function that are looked at
_TURNS = 10  # each 21 ms, after which time is set forward
_SKIPPED_NS = 1_000_000_000


class Spinning:
    """The turns that a kernel has spun.  Context: it stands still."""

    def __init__(self, kernel: KernelOnBoard, most_ns: int) -> None:
        """most_ns: how long the kernel may spin by its clock."""
        self._kernel = kernel
        self._most = most_ns // _SKIPPED_NS + 2
        self._turns, self._skipped, self._last = 0, 0, 0
        self._spun = False  # in the last turn

    def end_turn(self) -> None:
        """Look at a kernel at the end of a turn in which it was busy.

        Raises MachineDiedError when it has been spinning for all of its time.
        """
        machine = self._kernel.machine
        if machine.is_early():  # by the host's clock
            return
        begin, self._last = self._last, machine.board.blocks
        spun, self._spun = self._spun, self._spins()
        # one turn may end in an interrupt
        follows = self._last - begin <= 2 * abi.TURN_BLOCKS and (spun or self._spun)
        self._turns = self._turns + 1 if follows else 0
        if self._turns <= _TURNS:
            return
        self._skipped += 1
        if self._skipped > self._most:
            machine.dead = "the kernel does nothing but spin"
            raise MachineDiedError(machine.dead)
        machine.skip(_SKIPPED_NS)

    def _spins(self) -> bool:
        """Return True if the processor stands in a function that waits by a loop."""
        board = self._kernel.machine.board
        at = board.read_reg(board.arch.counter)
        symbol = self._kernel.symbols.symbol_at(at)
        if symbol is None:
            return False
        try:  # compilers put an instruction that waits far behind its loop
            code = self._kernel.memory.read(symbol.addr, min(symbol.size, _LARGEST))
        except MemoryFault:
            return False
        return any(pause in code for pause in board.arch.pauses)
