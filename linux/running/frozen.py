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
from kpfs.linux.store import image

Pages = dict[int, bytes]  # by their numbers


class Frozen(NamedTuple):
    """A copy of a kernel."""

    ram: Pages
    region: Pages
    board_fields: dict[str, Any]  # see kpfs.linux.store.image.board_fields()
    machine: tuple[Any, ...]  # what is known of these beside their memory
    tasks: tuple[Any, ...]


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
        machine=machine.state(),
        tasks=tasks.state(),
    )


def thaw(kernel: LinuxKernel, frozen: Frozen) -> None:
    """Put a locked kernel, also a dead one, back into a copied state."""
    board = kernel.another_board(frozen.board_fields)
    _put(board.ram, frozen.ram)
    _put(board.region, frozen.region)
    kernel.machine.set_state(frozen.machine)
    kernel.tasks.set_state(frozen.tasks)
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
        kernel.tasks.exit_all()

    return restore


def _put(memory: mmap.mmap, pages: Pages) -> None:
    """Put pages into a fresh board."""
    for number, data in pages.items():
        memory[number * PAGE_SIZE : (number + 1) * PAGE_SIZE] = data
