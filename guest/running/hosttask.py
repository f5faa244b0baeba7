# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's task of a host process, and what /proc says of that process."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Sequence

from kpfs.base import abi, host_process
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import MASK64
from kpfs.base.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from kpfs.guest.emu.memory import Memory
    from kpfs.guest.running.tasks import TaskTable

INIT_PID = 1
NO_WORDS = (0, 0, 0, 0, 0, 0, 0)
_U64 = struct.Struct("<Q")

Arg = int | bytes | str


class HostTask:
    """A guest task that serves a host process."""

    def __init__(self, memory: Memory, tasks: TaskTable, addr: int) -> None:
        info = tasks.info
        at = memory.translate(addr, info.task_size)
        task = tasks.read(addr)
        self.addr = addr
        self.pid = self.host_pid = task.pid  # which may be another one on the host
        self.uid = task.uid
        self.comm = task.comm
        self.comm_fd = -1  # /proc/PID/comm: also tells when the process is gone
        self.raw_comm = b""  # its last words
        self._memory, self._ram = memory, memory.ram
        self._files_at, self._files_id = at + info.task_files, info.files_id
        self._files = self._table_at = 0  # the last table, and where its number is
        self.req_at = at + info.task_req
        self.nested_at = at + info.task_nested
        self.cpu_at = at + info.task_cpu
        self.on_rq_at = at + info.task_on_rq
        self.comm_at = at + info.task_comm
        self.uid_at = at + info.task_uid
        self.user = memory.read_u64(addr + info.task_user_base)
        self.used = 0  # bytes of user memory taken by arguments
        self.host_op_at = at + info.task_host_op
        self.cpus: tuple[int, ...] = ()  # that its process is pinned to; none: all
        self.gone = False
        self.blocked = False  # it is in a call, perhaps one that was answered BLOCKED
        self.busy = False  # a thread runs the guest for this call
        self.refusal: KernelError | None = None  # by its last call's host op
        self.bug: BaseException | None = None  # likewise, but no errno

    @property
    def table(self) -> int:
        """Return the number of its table of descriptors, which no other ever has."""
        files: int = 0 if self.gone else _U64.unpack_from(self._ram, self._files_at)[0]
        if not files:
            return 0
        if files != self._files:
            self._table_at = self._memory.translate(files + self._files_id, 8)
            self._files = files
        number: int = _U64.unpack_from(self._ram, self._table_at)[0]
        return number

    @property
    def buffer(self) -> int:
        """Return the address of the task's user buffer, of USER_BUFFER_SIZE bytes."""
        return self.user + abi.USER_BUFFER

    def close(self) -> None:
        """Close the file of /proc that tells when the process is gone."""
        if self.comm_fd >= 0:
            os.close(self.comm_fd)
            self.comm_fd = -1

    def place(self, args: Sequence[Arg]) -> list[int]:
        """Return the seven argument words, with strings copied to user memory."""
        words = [
            arg & MASK64 if isinstance(arg, int) else self.place_bytes(as_bytes(arg))
            for arg in args
        ]
        words += NO_WORDS[len(words) :]
        return words

    def place_bytes(self, data: bytes) -> int:
        """Copy an argument to user memory; return its address there."""
        size = (len(data) + 7) & ~7
        if self.used + size > abi.USER_BUFFER:
            if len(data) <= abi.USER_BUFFER:
                raise KernelError(errno.E2BIG, "the arguments do not fit")
            self._memory.write(self.buffer, data[: abi.USER_BUFFER_SIZE])
            return self.buffer
        addr = self.user + self.used
        self._memory.write(addr, data)
        self.used += size
        return addr


def as_bytes(arg: bytes | str) -> bytes:
    """Return a string as the guest has it."""
    return (os.fsencode(arg) if isinstance(arg, str) else bytes(arg)) + b"\0"


def process_lives(task: HostTask) -> bool:
    try:
        os.pread(task.comm_fd, 1, 0)
    except OSError:
        return False
    return True


def comm_of(raw: bytes) -> str:
    return os.fsdecode(raw.rstrip(b"\n"))


def open_comm(pid: int) -> tuple[int, str]:
    """Return (open file of /proc/PID/comm or -1, name of the process)."""
    try:
        fd = os.open(f"/proc/{pid}/comm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1, "host"
    try:
        return fd, comm_of(os.pread(fd, 64, 0))
    except OSError:
        os.close(fd)
        return -1, "host"


def parent_of(pid: int) -> int:
    words = host_process.stat_words(pid)
    return int(words[host_process.PARENT]) if words else INIT_PID
