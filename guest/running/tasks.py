# SPDX-License-Identifier: GPL-2.0-or-later
"""The guest's structures: offsets that the image exports, and tasks.

Context: either, unless a function says otherwise.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kpfs.base import abi
from kpfs.base.ktypes import KAddr, TaskInfo
from kpfs.base.typed import NamedTuple
from kpfs.emulator.libunicorn import EmulatorError
from kpfs.guest.emu.memory import Memory

_MAGIC = int.from_bytes(b"kpfsinfo", "little")
_I32 = struct.Struct("<i")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class GuestInfo(NamedTuple):
    """struct kpfs_guest_info: offsets in the guest's structures, and addresses."""

    magic: int
    task_pid: int
    task_uid: int
    task_comm: int
    task_req: int
    task_user_base: int
    task_cpu: int
    task_next: int
    task_rethooks: int
    task_untouched: int
    task_size: int
    task_nested: int
    task_host_op: int
    task_on_rq: int
    task_quiescent: int
    task_files: int
    files_id: int
    percpu_base: int
    percpu_size: int
    log: int
    init_task: int


def read_info(memory: Memory, addr: int) -> GuestInfo:
    """Read the object kpfs_guest_info."""
    code = abi.KpfsGuestInfo.STRUCT
    info = GuestInfo(*code.unpack(memory.read(addr, code.size)))
    if info.magic != _MAGIC:
        raise EmulatorError("kpfs_guest_info has another magic word: rebuild the guest")
    return info


class TaskTable:
    """Reads struct task_struct where it lies."""

    def __init__(self, memory: Memory, info: GuestInfo) -> None:
        self._memory = memory
        self._ram = memory.ram
        self.info = info
        self._pcpu = [
            memory.translate(info.percpu_base + n * info.percpu_size, abi.KpfsPcpu.SIZE)
            for n in range(abi.NR_CPUS)
        ]

    def current(self, cpu: int) -> TaskInfo:
        """Return the task that a CPU is running."""
        at = self._pcpu[cpu] + abi.KpfsPcpu.current_task
        return self.read(_U64.unpack_from(self._ram, at)[0])

    def read(self, addr: int) -> TaskInfo:
        info, ram = self.info, self._ram
        at = self._memory.translate(addr, info.task_size)
        start = at + info.task_comm
        return TaskInfo(
            KAddr(addr),
            _I32.unpack_from(ram, at + info.task_pid)[0],
            ram[start : start + abi.TASK_COMM_LEN].split(b"\0", 1)[0].decode("latin-1"),
            _U32.unpack_from(ram, at + info.task_uid)[0],
        )

    def walk(self) -> Iterator[TaskInfo]:
        """Yield all tasks but those of idle CPUs, from the oldest."""
        info = self.info
        addr = self._next(info.init_task)
        while addr != info.init_task:
            yield self.read(addr)
            addr = self._next(addr)

    def runnable(self) -> Iterator[int]:
        """Yield the addresses of tasks that run or could, idle tasks left out."""
        addr, end = self._next(self.info.init_task), self.info.init_task
        while addr != end:
            if self.is_runnable(addr):
                yield addr
            addr = self._next(addr)

    def is_runnable(self, addr: int) -> bool:
        """Return True if a task, which may have ended, runs or is on a CPU's queue."""
        return bool(self._memory.read_u32(addr + self.info.task_on_rq))

    def quiescent_states(self, addr: int) -> int:
        """Return how often a task has been where none of the text is in its way."""
        return self._memory.read_u64(addr + self.info.task_quiescent)

    def _next(self, addr: int) -> int:
        at = self.info.task_next
        return self._memory.read_u64(addr + at) - at

    def find(self, pid: int) -> KAddr | None:
        """Return the address of the task with that pid, searching from the newest."""
        info, memory = self.info, self._memory
        previous = info.task_next + 8
        addr = memory.read_u64(info.init_task + previous) - info.task_next
        while addr != info.init_task:
            if memory.read_u32(addr + info.task_pid) == pid:
                return KAddr(addr)
            addr = memory.read_u64(addr + previous) - info.task_next
        return None
