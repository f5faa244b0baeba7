# SPDX-License-Identifier: GPL-2.0-or-later
"""Sets of numbers that guest code can search, and files of pids."""

from __future__ import annotations

import errno
import re
import struct
from collections.abc import Callable, Collection
from contextlib import suppress

from kpfs.base import abi
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import MASK64, KAddr
from kpfs.engine.kstrtox import kstrtoul
from kpfs.engine.runtime.runtime import Runtime
from kpfs.engine.trace.words import trace_get_user

# Numbers that need no closer look, as nearly all are: a list may have 100,000
_PLAIN = re.compile(rb"(?:[1-9][0-9]{0,8}[ \n])*")
PID_BITS = 30
_GONE = MASK64  # in a place of a table: what was here is taken out
PID_BUF_SIZE = 127


def place(key: int) -> int:
    """Return the hash of a key, which says where it is put: KP_HASH() of runtime.h."""
    return (key * abi.KP_HASH_MULTIPLIER & MASK64) >> 32


def places(keys: Collection[int]) -> list[int]:
    """Make the hash table of some numbers other than 0; 0 marks a free place."""
    mask = max(8, 1 << (2 * len(keys)).bit_length()) - 1
    table = [0] * (mask + 1)
    for key in keys:
        i = place(key) & mask
        while table[i]:
            i = (i + 1) & mask
        table[i] = key
    return table


class GuestTable:
    """A table of numbers that guest code looks up.  Context: control."""

    def __init__(self, runtime: Runtime, data: bytes) -> None:
        """data: the mask for the index of a place, and then what is at each place."""
        self._runtime = runtime
        self._size = len(data)
        self.addr: KAddr = runtime.heap.alloc(self._size)
        self.view = runtime.heap.view(self.addr, self._size)
        self.view[:] = data

    def free(self) -> None:
        """Free its memory as soon as no guest code can be reading it any more."""
        runtime, addr, size = self._runtime, self.addr, self._size
        runtime.after_quiescence(lambda: runtime.heap.free(addr, size))


class GuestSet(GuestTable):
    """A set of numbers other than 0, laid out as guest code's struct kp_hash."""

    def __init__(self, runtime: Runtime, keys: Collection[int]) -> None:
        table = places(keys)
        head = abi.KpHash.STRUCT.pack(len(table) - 1)
        super().__init__(runtime, head + struct.pack(f"<{len(table)}Q", *table))
        self._count = len(keys)
        self._mask = len(table) - 1

    def add(self, keys: Collection[int]) -> bool:
        """Put in further numbers; False: there is no room, and nothing was done.

        Half of the places stay free.
        """
        if 2 * (self._count + len(keys)) > self._mask:
            return False
        table, mask = self.view[abi.KpHash.STRUCT.size :].cast("Q"), self._mask
        for key in keys:
            i = place(key) & mask
            while table[i]:
                i = (i + 1) & mask
            table[i] = key
        self._count += len(keys)
        return True

    def remove(self, key: int) -> None:
        """Take a number out; its place is not used again.  Context: either."""
        table, mask = self.view[abi.KpHash.STRUCT.size :].cast("Q"), self._mask
        i = place(key) & mask
        while table[i] not in (0, key):
            i = (i + 1) & mask
        if table[i]:
            table[i] = _GONE


class PidSet:
    """The pids of a file such as set_event_pid, and the guest's copy of them."""

    def __init__(
        self, runtime: Runtime, tell: Callable[[int], None] = lambda _addr: None
    ) -> None:
        """tell: gets the address of the guest's copy when that changes, 0: no list."""
        self._runtime = runtime
        self._tell = tell
        self.pids: set[int] | None = None  # None: there is no list
        self._guest: GuestSet | None = None

    def text(self, empty: str = "") -> str:
        """Return the file's text; empty if there is no list."""
        if self.pids is None:
            return empty
        return "".join(f"{pid}\n" for pid in sorted(self.pids))

    def write(self, data: bytes) -> int:
        """Add pids; return bytes consumed; EINVAL, EPERM.  Kernel: trace_pid_write()"""
        plain = _PLAIN.match(data)
        done = plain.end() if plain else 0
        pids = set(map(int, data[:done].split()))
        while done < len(data):
            word, done = trace_get_user(data, PID_BUF_SIZE, done)
            if not word:
                break
            pid = _pid(word)
            if pid >> PID_BITS:
                raise KernelError(errno.EPERM, f"{pid} is no pid")
            pids.add(pid)
        self._add(pids - (self.pids or set()))
        return done

    def _add(self, pids: set[int]) -> None:
        """Add what is not there yet: in the guest's copy, or in a larger one."""
        if not pids:
            return
        old, known = self._guest, self.pids or set()
        if old is None or not old.add({pid + 1 for pid in pids}):
            keys = {pid + 1 for pid in known | pids}
            self._guest = GuestSet(self._runtime, keys)
            self._tell(self._guest.addr)
            if old is not None:
                old.free()
        self.pids = known | pids

    def follow_fork(self, pid: int, child: int) -> None:
        """Take in the child of a task that is listed.  Context: either.

        Kernel: trace_filter_add_remove_task()
        """
        if self.pids and pid in self.pids and child not in self.pids:
            with suppress(KernelError):  # without memory it is not listed
                self._add({child})

    def follow_exit(self, pid: int) -> None:
        """Forget a task that is gone; an empty list stays one.  Context: either.

        Kernel: trace_filter_add_remove_task()
        """
        if self._guest is not None and self.pids and pid in self.pids:
            self.pids.discard(pid)
            self._guest.remove(pid + 1)

    def clear(self) -> None:
        self.pids, old, self._guest = None, self._guest, None
        if old is not None:
            self._tell(0)
            old.free()

    @property
    def addr(self) -> int:
        """The address of the guest's copy, 0 if there is no list."""
        return self._guest.addr if self._guest else 0


def _pid(word: str) -> int:
    try:
        return kstrtoul(word) & 0xFFFF_FFFF
    except KernelError as error:
        raise KernelError(errno.EINVAL, f"{word!r} is no pid") from error
