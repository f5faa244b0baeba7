# SPDX-License-Identifier: GPL-2.0-or-later
"""Tell which tasks of a Linux kernel can run, by its counters per processor."""

from __future__ import annotations

from collections.abc import Sequence

from kpfs.base import abi
from kpfs.base.errors import KernelError, MemoryFault
from kpfs.linux.board.board import Board
from kpfs.linux.memory.btf import read_btf
from kpfs.linux.memory.tasks import TaskList
from kpfs.linux.running.kernel_on_board import KernelOnBoard

SIZE = 4  # bytes of a count
_COUNT = "nr_running"


def find(kernel: KernelOnBoard) -> list[int]:
    """Return the offsets in RAM of rq.nr_running; [] without BTF."""
    symbols, memory, board = kernel.symbols, kernel.memory, kernel.machine.board
    try:
        queues = symbols.address("runqueues")
        offsets = symbols.address("__per_cpu_offset")
        btf = read_btf(memory, symbols)
        field = btf.layouts({"rq": (_COUNT,)})["rq"].at[_COUNT] if btf else None
    except (MemoryFault, KeyError, ValueError):
        return []
    if field is None:
        return []
    return [
        board.translate(memory.word(offsets + memory.model.long * cpu) + queues + field)
        for cpu in range(board.get(abi.Board.nr_cpus))
    ]


def each(board: Board, counts: Sequence[int]) -> list[int]:
    """Return how many tasks can run on each processor."""
    ram, number = board.ram, board.arch.model.number
    return [number(ram[at : at + SIZE]) for at in counts]


def others(board: Board, counts: Sequence[int]) -> bool:
    """Return True if a task besides the agent can run. The agent always can."""
    return sum(each(board, counts)) > 1


def cpu_of_agent(kernel: KernelOnBoard) -> int:
    """Return the processor on which the agent, the kernel's first task, runs.

    -1: it waits for one, or nobody knows: there is no BTF.
    """
    try:
        tasks = TaskList(kernel.memory, kernel.symbols, kernel.structures)
        first = next(tasks.leaders(), None)
        return -1 if first is None else tasks.row(first).cpu
    except (MemoryFault, KernelError, KeyError):
        return -1
