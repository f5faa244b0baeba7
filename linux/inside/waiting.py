# SPDX-License-Identifier: GPL-2.0-or-later
"""Tells what the programs of a kernel wait for when their time is over."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from kpfs.base.errors import KernelError, MemoryFault
from kpfs.linux.memory.tasks import TaskList, TaskRow
from kpfs.linux.running.kernel_on_board import KernelOnBoard
from kpfs.linux.running.stacks import Stacks

_DEEPEST = 12  # functions of a stack
_MAX_TASKS = 32  # that are told of
# the functions by which programs enter the kernel, on all architectures: what lies on
# the stack behind them is left from earlier calls
_ENTRIES = "do_syscall_64", "el0_svc", "do_trap_ecall_u", "do_int80"


def stacks(kernel: KernelOnBoard, ours: Collection[int]) -> list[str]:
    """Return a line for each task of a program, those first that are blocked.

    ours: pids of kpfs's own tasks, which are left out.  [] if the kernel has no BTF.
    Context: lock held, between two steps of the machine.
    """
    try:
        tasks = TaskList(kernel.memory, kernel.symbols, kernel.structures)
        rows = [row for row in tasks.rows() if row.is_program and row.pid not in ours]
    except (KernelError, MemoryFault):
        return []
    rows.sort(key=lambda row: "DSR".find(row.state) % 4)
    stacks_of = Stacks(kernel)
    return [_told(kernel, tasks, stacks_of, row) for row in rows[:_MAX_TASKS]]


def _told(
    kernel: KernelOnBoard, tasks: TaskList, stacks_of: Stacks, row: TaskRow
) -> str:
    who = f"{row.comm} (pid {row.pid}, state {row.state})"
    if row.cpu >= 0:
        return f"{who} runs on CPU {row.cpu}"
    try:
        field = partial(tasks.place, row.addr)
        registers = kernel.arch.asleep(field, kernel.memory)
        names = stacks_of.of_sleeper(registers, _DEEPEST)
        entry = (n for n, name in enumerate(names) if name.startswith(_ENTRIES))
        names = names[: next(entry, len(names)) + 1]
    except (MemoryFault, KeyError):
        names = []
    return f"{who} in {' < '.join(names) or 'a place that is not known'}"
