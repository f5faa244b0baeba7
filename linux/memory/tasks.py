# SPDX-License-Identifier: GPL-2.0-or-later
"""The tasks of a kernel, read from its memory.  Kernel: struct task_struct."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kpfs.linux.memory.structures import Reader, View

MAX_TASKS = 1 << 16
_COMM_LEN = 16
_UNINTERRUPTIBLE = 2  # a bit of a task's state


class TaskRow(NamedTuple):
    """A task, but for those of idle processors."""

    addr: int  # its struct task_struct
    pid: int
    comm: str
    cpu: int  # the processor that it runs on; -1: none
    state: str = "R"  # as in /proc/PID/stat, as far as it is R, S or D
    is_program: bool = False  # else it is a task of the kernel's own


class TaskList(Reader):
    """Reads the list of tasks, and the threads of each."""

    needs = "task_struct", "tasks"

    def rows(self) -> Iterator[TaskRow]:
        """Yield all tasks, as far as the kernel describes them."""
        yield from map(self.row, self.all())

    def all(self) -> Iterator[int]:
        """Yield the addresses of all tasks."""
        for leader in self.leaders():
            yield from self._threads(leader)

    def leaders(self) -> Iterator[int]:
        """Yield the addresses of the first tasks of all processes."""
        at = self._structures["task_struct"].at["tasks"]
        for node in self._memory.nodes(
            self._structures.data("init_task")[0] + at, MAX_TASKS
        ):
            yield node - at

    def _threads(self, leader: int) -> Iterator[int]:
        """Yield a process's tasks."""
        fields = self._structures["task_struct"].at
        head = self._structures["signal_struct"].at.get("thread_head")
        if head is None or not fields.keys() >= {"signal", "thread_node"}:
            yield leader
            return
        signal, at = self._memory.word(leader + fields["signal"]), fields["thread_node"]
        for node in self._memory.nodes(signal + head, MAX_TASKS):
            yield node - at

    def row(self, addr: int) -> TaskRow:
        """Return the task at an address."""
        task = View(self._memory, self._structures["task_struct"], addr)
        start = task.layout.at["comm"]
        comm = task.raw[start : start + _COMM_LEN].partition(b"\0")[0]
        place = "thread_info.cpu" if task.layout.has("thread_info.cpu") else "cpu"
        # an int in older ones, in newer ones a byte before other flags
        is_byte = "on_cpu" in task.layout.bits
        runs = task.bit("on_cpu") if is_byte else task.number("on_cpu", 4)
        cpu = task.number(place, 4) if runs else -1
        waits = task.number("__state", 4) | task.number("state", 4)
        state = "D" if waits & _UNINTERRUPTIBLE else "S" if waits else "R"
        pid, name = task.number("pid", 4), comm.decode("latin-1")
        return TaskRow(addr, pid, name, cpu, state, task.word("mm") != 0)

    def place(self, addr: int, field: str) -> int:
        """Return the address of a task's field; KeyError: this kernel lacks it."""
        return addr + self._structures["task_struct"].at[field]
