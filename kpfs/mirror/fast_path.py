# SPDX-License-Identifier: GPL-2.0-or-later
"""Let calls go on without a look by Python while nobody could see them.

``fast_path.c`` receives the reports of the seccomp filter.  A report that Python would
only let go on, it lets go on itself, in half of the time and without the lock of
Python's interpreter.  Python finds out which these are, and C forgets that whenever
the kernel's lock is taken: whoever begins to look, or brings tasks up to date, has the
lock.  So the next call is Python's again, which finds it out anew.  The owner of a turn
that has changed nothing says so.

The end of a process that has no task goes on as well, if its parent can take the signal
(see kpfs.mirror.supervisor).  Python is told later, by take_ended().

kpfs.mirror.process_table says what must always hold.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

from kpfs.base import abi
from kpfs.base.structures import fields
from kpfs.base.typed import TYPE_CHECKING
from kpfs.mirror import library

if TYPE_CHECKING:
    from typing import Final

    from kpfs.base.lock import FairLock
    from kpfs.base.skip_policy import Seen

# ways of a call; of one with a path, PATH + its argument
ASK, GO, EXIT, PATH = abi.WAY_ASK, abi.WAY_GO, abi.WAY_EXIT, abi.WAY_PATH
NEVER: Final = (1 << 64) - 1  # in place of a turn of the lock

_FUNCTIONS = (
    *("ioctl", "process_vm_readv", "clock_gettime", "__errno_location", "syscall"),
)


class FastPath(ctypes.Structure):
    """struct fast_path.  Context: the thread that receives."""

    nr_ended: int

    _fields_ = fields(abi.FastPath)

    def __init__(self, lock: FairLock) -> None:
        """lock: the kernel's."""
        super().__init__()
        self._lock = lock
        for function in _FUNCTIONS:
            setattr(self, function.strip("_"), library.address_of(function))
        self.turns = lock.turns_at
        self.opened = NEVER
        self._at = ctypes.addressof(self)
        self.seen: Seen | None = None  # the calls that can be seen: those do not go on
        self.show(())
        self._receive = library.load().fast_path_receive
        self._receive.argtypes = (
            ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p,
            ctypes.c_int,
        )  # fmt: skip

    @property
    def turn(self) -> int:
        """The lock's turn in which a path that is opened now may be used, or NEVER.

        It is to be read before what is found out for that.
        """
        turn = self._lock.turns
        return NEVER if self._lock.taken() else turn

    @property
    def is_open(self) -> bool:
        return self.opened == self._lock.turns

    def show(self, names: Iterable[bytes]) -> None:
        """Have Python see calls with paths that end with one of these names."""
        self._names = ctypes.create_string_buffer(b"".join(n + b"\0" for n in names))
        self.names = ctypes.addressof(self._names)

    def watch(self, slots: int, count: int) -> None:
        """Let processes end, unless one of the slots at an address is in work."""
        self.slots, self.nr_slots = slots, count

    def open(
        self, turn: int, pid: int, seen: Seen, ways: bytes, ends: bool = False
    ) -> None:
        """Let calls of a process go on in a turn.  ways: the way of each call.

        seen: what the ways were made for.  ends: it may end, too, as it has no task.
        """
        self.seen = seen
        if turn != self.opened:
            self.opened = NEVER
            ctypes.memset(self.pids, 0, abi.FAST_PATH_PIDS * 4)
            ctypes.memmove(self.ways, ways, abi.FAST_PATH_CALLS)
            self.opened = turn
        self.ends[pid % abi.FAST_PATH_PIDS] = ends
        self.pids[pid % abi.FAST_PATH_PIDS] = pid

    def take_ended(self) -> list[int]:
        """Return processes that have ended, each once."""
        ended: list[int] = self.ended[: self.nr_ended]
        self.nr_ended = 0
        return ended

    def stay(self) -> None:
        """Stay open in a turn of the lock that changes nothing.  Context: lock held.

        Some other turn may have come before it, or the path is being opened.
        """
        if self.opened == self._lock.turns - 1:
            self.opened += 1

    def forget(self, pid: int) -> None:
        """Let no call of a process go on until open() is called.  Context: any."""
        if self.pids[pid % abi.FAST_PATH_PIDS] == pid:
            self.pids[pid % abi.FAST_PATH_PIDS] = 0

    def close(self) -> None:
        """Let no call go on until open() is called again.  Context: any."""
        self.opened = NEVER

    def receive(self, listener: int, slot: int, report: int, made: bool = False) -> int:
        """Receive a report that Python is to look at; return FAST_PATH_RECEIVED.

        FAST_PATH_LATE: it has gone on, perhaps while somebody began to look.  OSError.
        slot: the address of one of kpfs.mirror.keeper's.  report: that of memory for
        the report.  made: the report that is there goes on first.
        Context: others run Python meanwhile.
        """
        result: int = self._receive(self._at, listener, slot, report, made)
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        return result
