# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether the guest's directories are as they were in the image.

What comes and goes below tracefs, /proc/sys and /sys/module are events, instances and
what modules bring, all of which stand in three lists of the kernel.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence

from kpfs.engine.errors import MemoryFault
from kpfs.linux.board.board import Board
from kpfs.linux.kernel import syscalls as nr
from kpfs.linux.kernel.machine import Op
from kpfs.linux.memory.memory import KernelMemory
from kpfs.linux.memory.symbols import Symbols

HEADS = "modules", "dyn_event_list", "ftrace_trace_arrays"
_HEAD = struct.Struct("<2Q")  # next, prev
_LOOKS = frozenset(
    (nr.READ, nr.CLOSE, nr.LSEEK, nr.POLL, nr.STATX, nr.GETDENTS64, nr.READLINKAT)
)


class Directories:
    """Those of one machine.  Context: its lock is held.

    ``as_made``: what is there now, but for what belongs to tasks, stays.
    """

    def __init__(
        self,
        board: Board,
        saved: KernelMemory,
        symbols: Symbols,
        on_change: Callable[[], None],
    ) -> None:
        """saved: as it is in the image; on_change: told when something may differ."""
        self.on_change = on_change
        self._ram = board.ram
        self._heads: list[tuple[int, bytes]] = []
        known = True
        for name in HEADS:
            try:
                address = symbols.address(name)
                head = saved.read(address, _HEAD.size)
            except MemoryFault:  # an older kernel has none of that name
                known = False
                break
            first, last = _HEAD.unpack(head)
            known &= first == last  # else the head alone would not tell
            self._heads.append((board.translate(address), head))
        self._known = known
        self.as_made = self._unchanged()

    def _unchanged(self) -> bool:
        ram = self._ram
        return self._known and all(
            ram[at : at + _HEAD.size] == head for at, head in self._heads
        )

    def ran(self, ops: Sequence[Op]) -> None:
        """Find out what system calls may have changed, or, without, what time has."""
        before, now = self.as_made, self._unchanged()
        self.as_made = now
        if before != now or not (now or all(map(_only_looks, ops))):
            self.on_change()


def _only_looks(op: Op) -> bool:
    if op.nr == nr.OPENAT:
        flags = op.args[2]
        return isinstance(flags, int) and not flags & (os.O_TRUNC | os.O_CREAT)
    return op.nr in _LOOKS
