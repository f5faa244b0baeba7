# SPDX-License-Identifier: GPL-2.0-or-later
"""Copies of a kernel that stands still, to go back to.

A copy has all that differs from the image: pages, processors, and the agent's tasks. It
is put back on a fresh board, so that the emulator is in the same state each time, too.
Code that is already translated would show in the kernel's clock, by one block now and
then.
"""

from __future__ import annotations

import errno
import mmap
from collections.abc import Callable
from typing import Any, NamedTuple

from kpfs.base.errors import KernelError
from kpfs.base.units import PAGE_SIZE
from kpfs.linux.board.board import written_pages
from kpfs.linux.running.linux_kernel import LinuxKernel
from kpfs.linux.running.tasks import AgentTask
from kpfs.linux.store import image

Pages = dict[int, bytes]  # by their numbers


class Frozen(NamedTuple):
    """A copy of a kernel."""

    ram: Pages
    region: Pages
    board_fields: dict[str, Any]  # see kpfs.linux.store.image.board_fields()
    machine: dict[str, Any]  # Python's copies of these
    tasks: dict[str, Any]
    each: list[tuple[AgentTask, dict[str, Any]]]


_OF_MACHINE = "_seqs", "_busy", "_current", "dead"
_OF_HOST = {"_comm_fd"}  # open now or not, whatever the kernel is put back to
_OF_TASKS = "_by_pid", "_free", "waiting", "_dying", "_said"


def freeze(kernel: LinuxKernel) -> Frozen:
    """Copy a locked kernel; ValueError if a task waits in it."""
    machine, tasks = kernel.machine, kernel.tasks
    tasks.check(tasks.agent)
    if tasks.waiting:
        raise ValueError("a task waits; a snapshot is of a kernel that stands still")
    machine.settle(machine.now())
    board = machine.board
    return Frozen(
        ram=dict(written_pages(board.ram)),
        region=dict(written_pages(board.region)),
        board_fields=image.board_fields(board),
        machine=_kept(machine, _OF_MACHINE),
        tasks=_kept(tasks, _OF_TASKS),
        each=[
            (task, {name: vars(task)[name] for name in vars(task).keys() - _OF_HOST})
            for task in (*_of_callers(kernel), tasks.agent)
        ],
    )


def thaw(kernel: LinuxKernel, frozen: Frozen) -> None:
    """Put a locked kernel, also a dead one, back into a copied state."""
    board = kernel.another_board(frozen.board_fields)
    _put(board.ram, frozen.ram)
    _put(board.region, frozen.region)
    for task in _of_callers(kernel):
        task.gone = True  # but for those that were there
    for task, values in frozen.each:
        vars(task).update(values)
    _restore(kernel.machine, frozen.machine)
    _restore(kernel.tasks, frozen.tasks)
    kernel.machine.skip(0)


def kept(kernel: LinuxKernel) -> Callable[[], None]:
    """Return a function that reboots a locked kernel into its present state.

    The tasks of processes end there, and so their files are closed.  EBUSY: a task
    waits.
    """
    try:
        frozen = freeze(kernel)
    except ValueError as error:
        raise KernelError(errno.EBUSY, str(error)) from error

    def restore() -> None:
        kernel.reboot()
        thaw(kernel, frozen)
        kernel.on_board(kernel.machine.board)  # its memory has modules only now
        for task in _of_callers(kernel):
            kernel.tasks.exit(task)

    return restore


def _of_callers(kernel: LinuxKernel) -> list[AgentTask]:
    return list(vars(kernel.tasks)["_by_pid"].values())


def _kept(owner: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: _copy(vars(owner)[name]) for name in names}


def _restore(owner: object, values: dict[str, Any]) -> None:
    vars(owner).update({name: _copy(value) for name, value in values.items()})


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, list | dict | set) else value


def _put(memory: mmap.mmap, pages: Pages) -> None:
    """Put pages into a fresh board."""
    for number, data in pages.items():
        memory[number * PAGE_SIZE : (number + 1) * PAGE_SIZE] = data
