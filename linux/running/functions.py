# SPDX-License-Identifier: GPL-2.0-or-later
"""Calls from the host into kernel functions, and back into host functions.

To call a function of the kernel, a task makes a system call for the purpose. The board
stops before that system call's function, and the wanted function is run in its place.

A function of the host gets an address in a page that the kernel allocates for
instructions. The instructions there load the function's number and jump to one place,
where the board stops. Python resumes the kernel at the return address, so what follows
that place is never run.
"""

from __future__ import annotations

import contextlib
import errno
import struct
from collections.abc import Callable
from typing import NamedTuple

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError, MemoryFault
from kpfs.linux.arch import x86
from kpfs.linux.board.board import PAGE_SIZE
from kpfs.linux.running.linux_kernel import LinuxKernel
from kpfs.linux.running.machine import Op
from kpfs.linux.running.tasks import Task

# takes the first three arguments, and gives the value; it must not raise anything
Function = Callable[[int, int, int], int]

_ENTRY, _NUMBER = "__x64_sys_getppid", nr.GETPPID
_COOKIE = 0x6B70_6673_6361_6C6C  # the argument of a system call that is made for this
_DI = 14  # in struct pt_regs
_ARGUMENTS = "rdi", "rsi", "rdx"
_STUB = struct.Struct("<BIBi6x")  # mov $number, %eax; jmp to the board's stop
_MOV_EAX, _JMP, _JMP_END, _RET = 0xB8, 0xE9, 10, b"\xc3"
_STUBS = PAGE_SIZE // _STUB.size - 1  # of a page, at whose end is that place
_STOP_AT = _STUBS * _STUB.size


class SavedFunctions(NamedTuple):
    """The host functions of a snapshot."""

    functions: dict[int, Function]
    unused: list[int]
    gate: int


class PythonFunctions:
    """The Python functions that one kernel can call.  Raises MachineDiedError."""

    def __init__(self, kernel: LinuxKernel) -> None:
        self._kernel = kernel
        self._entry = kernel.symbols.address(_ENTRY)
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
        self._kernel.machine.on_call = self._on_call
        self._watch()

    def _watch(self) -> None:
        places = [self._gate] if self._gate else []
        if self._meant is not None:
            places.append(self._entry)
        calls = [(place, abi.NEVER) for place in places]
        self._kernel.machine.board.set_calls(calls)

    # ---- the kernel's
    def call(self, task: Task, name: str, *args: int) -> int:
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
            return kernel.request(task, [Op(_NUMBER, (_COOKIE,))]).value(0)
        finally:
            self._meant = None
            self._watch()

    # ---- the host's
    def add(self, task: Task, function: Function) -> int:
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

    def _add_page(self, task: Task) -> None:
        page = self.call(task, "alloc_insn_page") & abi.NEVER
        if not page:
            raise KernelError(errno.ENOMEM, "no page for instructions")
        self._gate = self._gate or page + _STOP_AT
        stubs = range(page, page + _STOP_AT, _STUB.size)
        code = [
            _STUB.pack(_MOV_EAX, at & 0xFFFFFFFF, _JMP, self._gate - at - _JMP_END)
            for at in stubs
        ]
        self._kernel.memory.write(page, b"".join(code) + _RET)
        self._kernel.machine.board.flush()
        self._unused += reversed(stubs)
        self._watch()

    # ---- where the board stops
    def _on_call(self) -> None:
        """Serve a stop; the kernel goes on by itself where it has made it up."""
        with contextlib.suppress(MemoryFault):
            self._serve()

    def _serve(self) -> None:
        board, memory = self._kernel.machine.board, self._kernel.memory
        read, write, number = board.read_reg, board.write_reg, x86.GENERAL
        if board.get(abi.Board.asked_at) == self._gate:
            low = read(number["rax"])
            function = self._functions.get(self._gate & ~0xFFFFFFFF | low & 0xFFFFFFFF)
            if function is None:
                return
            value = function(*[read(number[name]) for name in _ARGUMENTS])
            stack = read(number["rsp"])
            back = memory.word(stack)
            write(number["rax"], value)
            write(number["rsp"], stack + 8)
            write(number["rip"], back)
        elif self._meant is None or (
            memory.word(read(number["rdi"]) + 8 * _DI) != _COOKIE
        ):
            return  # it is somebody's own
        else:
            (target, args), self._meant = self._meant, None
            for name, value in zip(_ARGUMENTS, args, strict=False):
                write(number[name], value)
            write(number["rip"], target)
        board.set(asked_at=0)
