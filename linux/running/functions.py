# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls from the host into kernel functions, and back into host functions.

To call a function of the kernel, a task makes a system call for the purpose. The board
stops before that system call's function, and the wanted function is run in its place.

A function of the host gets an address in a page that the kernel allocates for
instructions. The instructions there load that address and jump to one place,
where the board stops. Python resumes the kernel at the return address, so what follows
that place is never run.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from typing import NamedTuple

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError, MemoryFault
from kpfs.base.units import PAGE_SIZE
from kpfs.linux.running.linux_kernel import LinuxKernel
from kpfs.linux.running.machine import Op
from kpfs.linux.running.tasks import AgentTask

# takes the first three arguments, and gives the value; it must not raise anything
Function = Callable[[int, int, int], int]

_ENTRY, _NUMBER = "getppid", nr.GETPPID
_COOKIE = 0x6B70_6673_6361_6C6C  # the argument of a system call that is made for this


class SavedFunctions(NamedTuple):
    """The host functions of a snapshot."""

    functions: dict[int, Function]
    unused: list[int]
    gate: int


class PythonFunctions:
    """The Python functions that one kernel can call.  Raises MachineDiedError."""

    def __init__(self, kernel: LinuxKernel) -> None:
        self._kernel = kernel
        arch = self._arch = kernel.arch
        self._entry = kernel.symbols.address(f"{arch.syscall_prefix}{_ENTRY}")
        # behind the stubs of a page is the place where the board stops
        self._stop_at = PAGE_SIZE - arch.stub_size
        self._meant: tuple[int, tuple[int, ...]] | None = None  # address, arguments
        self._forget()
        kernel.follow(self._forget)

    def _forget(self) -> None:
        """Drop all addresses, because the machine is a new one."""
        self.restore(SavedFunctions({}, [], 0))

    # ---- snapshots
    def held(self) -> SavedFunctions:
        """Return the functions that exist now."""
        return SavedFunctions(dict(self._functions), list(self._unused), self._gate)

    def restore(self, held: SavedFunctions) -> None:
        """Restore the functions of a snapshot, on a board of its own."""
        self._functions, self._unused = dict(held.functions), list(held.unused)
        self._gate = held.gate
        self._watch()

    def _watch(self) -> None:
        places = [self._gate] if self._gate else []
        if self._meant is not None:
            places.append(self._entry)
        calls = [(place, abi.NEVER) for place in places]
        self._kernel.machine.stops.set(self._on_call, calls)

    # ---- the kernel's
    def call(self, task: AgentTask, name: str, *args: int) -> int:
        """Make a task call a function of the kernel, which may sleep.

        Returns the signed value. Raises KernelError(EOPNOTSUPP) if the kernel has no
        such function.
        """
        kernel = self._kernel
        target = kernel.symbols.address(name) or kernel.symbols.address(
            f"{name}_noprof"
        )
        if not target or not self._entry:
            raise KernelError(errno.EOPNOTSUPP, f"this kernel has no {name}()")
        self._meant = target, args
        self._watch()
        try:
            return kernel.tasks.request(task, [Op(_NUMBER, (_COOKIE,))]).value(0)
        finally:
            self._meant = None
            self._watch()

    # ---- the host's
    def add(self, task: AgentTask, function: Function) -> int:
        """Return an address for a function; raises KernelError(ENOMEM) without room."""
        if not self._unused:
            self._add_page(task)
        address = self._unused.pop()
        self._functions[address] = function
        return address

    def remove(self, address: int) -> None:
        """Free a function's address, which the kernel no longer calls."""
        if self._functions.pop(address, None) is not None:
            self._unused.append(address)

    def _add_page(self, task: AgentTask) -> None:
        page = self.call(task, "alloc_insn_page") & abi.NEVER
        if not page:
            raise KernelError(errno.ENOMEM, "no page for instructions")
        arch = self._arch
        self._gate = self._gate or page + self._stop_at
        stubs = range(page, page + self._stop_at, arch.stub_size)
        code = b"".join(arch.stub(at, self._gate) for at in stubs)
        self._kernel.memory.write(page, code + arch.gate)
        self._kernel.machine.board.flush()
        self._unused += reversed(stubs)
        self._watch()

    # ---- where the board stops
    def _on_call(self, _at: int) -> None:
        """Serve a stop; the kernel goes on by itself where it has made it up."""
        with contextlib.suppress(MemoryFault):
            self._serve()

    def _serve(self) -> None:
        board, memory, arch = (
            self._kernel.machine.board,
            self._kernel.memory,
            self._arch,
        )
        if board.get(abi.Board.asked_at) == self._gate:
            function = self._functions.get(board.read_reg(arch.stub_register))
            if function is None:
                return
            value = function(*map(board.read_reg, arch.arguments))
            arch.return_now(board, memory, value)
        elif self._meant is None or (
            arch.called_with(board, memory) != _COOKIE & (1 << 8 * arch.model.long) - 1
        ):
            return  # it is somebody's own
        else:
            (target, args), self._meant = self._meant, None
            for register, value in zip(arch.arguments, args, strict=False):
                board.write_reg(register, value)
            if arch.entry_register is not None:
                board.write_reg(arch.entry_register, target)
            board.write_reg(arch.counter, target)
        board.set(asked_at=0)
