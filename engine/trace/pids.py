# SPDX-License-Identifier: GPL-2.0-or-later
"""Sets of numbers that guest code can search, and files of pids."""

from __future__ import annotations

import errno
import re
import struct
from collections.abc import Collection

from kpfs import abi
from kpfs.engine.errors import KernelError
from kpfs.engine.kstrtox import kstrtoul
from kpfs.engine.ktypes import MASK64, KAddr
from kpfs.engine.runtime.runtime import Runtime
from kpfs.engine.trace.words import trace_get_user

# Numbers that need no closer look, as nearly all are: a list may have 100,000
_PLAIN = re.compile(rb"(?:[1-9][0-9]{0,8}[ \n])*")
PID_BITS = 30
PID_BUF_SIZE = 127


def place(key: int) -> int:
    """The hash of a key, which says where it is put: KP_HASH() of runtime.h."""
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
    """A table in guest memory that guest code looks numbers up in.

    Context: control.
    """

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


class PidSet:
    """The pids of a file such as set_event_pid, and the guest's copy of them."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.pids: set[int] | None = None  # None: there is no list
        self._guest: GuestSet | None = None

    def text(self, empty: str = "") -> str:
        if not self.pids:
            return empty
        return "".join(f"{pid}\n" for pid in sorted(self.pids))

    def write(self, data: bytes) -> int:
        """Add the pids of one write and return the bytes consumed; EINVAL, EPERM.

        Kernel: trace_pid_write()
        """
        done = _plain_end(data)
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
        self.pids = self.pids or set()
        self.pids |= pids
        old, keys = self._guest, {pid + 1 for pid in pids}
        if old is not None:
            if old.add(keys):
                return
            keys = {pid + 1 for pid in self.pids}
            old.free()
        self._guest = GuestSet(self._runtime, keys)

    def clear(self) -> None:
        self.pids, old, self._guest = None, self._guest, None
        if old is not None:
            old.free()

    @property
    def addr(self) -> int:
        """The address of the guest's copy, 0 if there is no list."""
        return self._guest.addr if self._guest else 0


def _plain_end(data: bytes) -> int:
    """Where the plain numbers at the head of data end."""
    plain = _PLAIN.match(data)
    return plain.end() if plain else 0


def _pid(word: str) -> int:
    try:
        return kstrtoul(word) & 0xFFFF_FFFF
    except KernelError as error:
        raise KernelError(errno.EINVAL, f"{word!r} is no pid") from error
