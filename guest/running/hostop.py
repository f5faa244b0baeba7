# SPDX-License-Identifier: GPL-2.0-or-later
"""The request of a task to a file of the mount, in the middle of a system call."""

from __future__ import annotations

from collections.abc import Callable

from kpfs.base import abi
from kpfs.base.units import PATH_MAX
from kpfs.guest.emu.memory import Memory

_HOST_OP = abi.KpfsHostOp.STRUCT

HostOpHandler = Callable[["HostOp"], int | bytes]


class HostOp:
    """struct kpfs_host_op of a task that stands at HC_HOST_OP.  Context: control.

    A handler may set ``cookie`` (at HOST_OPEN; kept in the open file), ``pos`` (the
    position afterwards) and ``mode``.
    """

    def __init__(self, memory: Memory, at: int, pid: int) -> None:
        """at: the offset in RAM."""
        self._memory, self._at, self.pid = memory, at, pid
        fields = _HOST_OP.unpack_from(memory.ram, at)
        self.kind, self.cookie, self.flags, self.mode, self.count = fields[:5]
        self.pos, self._data, self._path, self._ret = fields[5:]

    @property
    def path(self) -> str:
        """Return the path from the mount's root."""
        if not self._path:
            return ""
        raw = self._memory.read_cstring(self._path, PATH_MAX)
        return raw.decode(errors="surrogateescape")

    def data(self) -> bytes:
        """Return the bytes to write; the guest brings HOST_DATA_SIZE at most."""
        if not self._data:
            return b""
        return self._memory.read(self._data, min(self.count, abi.HOST_DATA_SIZE))

    def answer(self, result: int | bytes) -> None:
        """Put an answer where the guest finds it: a number or bytes."""
        if isinstance(result, bytes):
            if self._data:
                self._memory.write(self._data, result[: abi.HOST_DATA_SIZE])
            self._ret = len(result)
        else:
            self._ret = result
        asked = self.kind, self.cookie, self.flags, self.mode, self.count, self.pos
        words = (*asked, self._data, self._path, self._ret)
        _HOST_OP.pack_into(self._memory.ram, self._at, *words)
