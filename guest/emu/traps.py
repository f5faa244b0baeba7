# SPDX-License-Identifier: GPL-2.0-or-later
"""Exceptions: first the engine's handler, then the guest's own entry for the vector.

The emulator has no IDT, so the frame is pushed here, on the current stack as for an
exception in the kernel, or for #DB on one of its own.  The guest's C then searches its
exception table, reports a BUG or an oops and kills the task.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Mapping

from kpfs.base import abi
from kpfs.base.errors import KernelError, MemoryFault
from kpfs.base.x86 import (
    X86_EFLAGS_IF,
    X86_EFLAGS_TF,
    X86_TRAP_GP,
    X86_TRAP_PF,
    X86_TRAP_UD,
)
from kpfs.emulator.libunicorn import EmulatorError
from kpfs.engine.machine import FaultHandler, HypercallHandler
from kpfs.guest.emu.cpu import Cpu
from kpfs.guest.emu.cpu_registers import REG_FLAGS, REG_IP, REG_SP
from kpfs.guest.emu.memory import Memory

X86_TRAP_DB = 1
X86_TRAP_NMI = 2
X86_TRAP_BP = 3
X86_TRAP_DF = 8
ENTRIES: Mapping[int, str] = {
    0: "asm_exc_divide_error",
    X86_TRAP_DB: "asm_exc_debug",
    X86_TRAP_NMI: "asm_exc_nmi",
    X86_TRAP_BP: "asm_exc_int3",
    X86_TRAP_UD: "asm_exc_invalid_op",
    X86_TRAP_DF: "asm_exc_double_fault",
    X86_TRAP_GP: "asm_exc_general_protection",
    X86_TRAP_PF: "asm_exc_page_fault",
}
_WITH_ERROR_CODE = frozenset((X86_TRAP_NMI, X86_TRAP_DF, X86_TRAP_GP, X86_TRAP_PF))
_FRAME = struct.Struct("<6Q")  # error code, ip, cs, flags, sp, ss
_X86_PF_INSTR = 0x10
_ENGINE_REASONS = range(0x20, 0x61)


class GuestPanicError(KernelError):
    """The guest kernel is dead: every later operation fails, with ESHUTDOWN."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.ESHUTDOWN, reason)


class Traps:
    """The trap table, engine.machine.Traps.  Context: hit, but for setting handlers."""

    def __init__(
        self, cpu: Cpu, memory: Memory, address_of: Callable[[str], int | None]
    ) -> None:
        self._cpu = cpu
        self._memory = memory
        self._address_of = address_of
        self._fault_handler: FaultHandler | None = None
        cpu.on_breakpoint(lambda _ip: None)
        cpu.on_trap(self.handle)
        self.on_breakpoint, self.on_entry = cpu.on_breakpoint, cpu.on_entry

    def on_fault(self, handler: FaultHandler) -> None:
        self._fault_handler = handler

    def on_hypercall(self, reason: int, handler: HypercallHandler) -> None:
        if reason not in _ENGINE_REASONS:
            raise ValueError(f"hypercall {reason:#x} is the machine's own")
        self._cpu.hypercalls[reason] = handler

    def handle(self, vector: int) -> None:
        """Handle a trap that is not one of the engine's breakpoints."""
        cpu = self._cpu
        error_code = cpu.clear_exception(vector)
        address = cpu.fault_address() if vector == X86_TRAP_PF else 0
        self._fault(vector, cpu.read_reg(REG_IP), address, error_code)

    def null_call(self) -> None:
        """Handle a jump to address 0, at which the emulator just ends the run."""
        self._cpu.set_fault_address(0)
        self._fault(X86_TRAP_PF, 0, 0, _X86_PF_INSTR)

    def lockup(self, seconds: int) -> None:
        """Tell the guest by an NMI that it does not rest.  Context: control."""
        self._deliver(X86_TRAP_NMI, self._cpu.read_reg(REG_IP), seconds)

    def no_room(self, sp: int) -> None:
        """Tell the guest that an interrupt found no stack.  Context: control."""
        cpu = self._cpu
        cpu.set_fault_address(sp)
        entry, top = self._double_fault("interrupt", cpu.read_reg(REG_IP))
        flags = cpu.read_reg(REG_FLAGS)
        cpu.write_reg(REG_SP, top)
        cpu.write_reg(REG_FLAGS, flags & ~(X86_EFLAGS_IF | X86_EFLAGS_TF))
        cpu.write_reg(REG_IP, entry)

    def _double_fault(self, what: str, ip: int) -> tuple[int, int]:
        """Push a frame on the stack for that: the entry, and where the frame is.

        The guest is dead if this is the stack that is in use.
        """
        cpu = self._cpu
        flags, sp = cpu.read_reg(REG_FLAGS), cpu.read_reg(REG_SP)
        end = abi.STACK_BASE + (abi.STACKS_DF + cpu.active + 1) * abi.STACK_STRIDE
        entry = self._address_of(ENTRIES[X86_TRAP_DF])
        if entry is None or end - abi.STACK_STRIDE <= sp <= end:
            raise GuestPanicError(f"double fault: {what} at {ip:#x}, stack {sp:#x}")
        frame = _FRAME.pack(0, ip, abi.CS, flags, sp, abi.DS)
        self._memory.write(end - len(frame), frame)
        return entry, end - len(frame)

    def debug_exception(self, stack: int) -> None:
        """Raise #DB, its cause in dr6, on the stack with this top."""
        self._deliver(X86_TRAP_DB, self._cpu.read_reg(REG_IP), 0, stack)

    def _fault(self, vector: int, ip: int, address: int, error_code: int) -> None:
        if self._fault_handler is not None and vector != X86_TRAP_BP:
            to = self._fault_handler(vector, ip, address)
            if to is not None:
                self._cpu.write_reg(REG_IP, to)
                return
            ip = self._cpu.read_reg(REG_IP)  # it may blame another instruction
        self._deliver(vector, ip, error_code)

    def _deliver(
        self, vector: int, ip: int, error_code: int, stack: int | None = None
    ) -> None:
        """Enter the guest's handler as through an interrupt gate.

        stack: the one to go on at, by default the current one.
        """
        cpu = self._cpu
        if vector not in ENTRIES:
            vector, error_code = X86_TRAP_GP, vector * 8 + 2
        entry = self._address_of(ENTRIES[vector])
        if entry is None:
            raise EmulatorError(f"trap {vector} at {ip:#x}: the guest has no handler")
        flags, sp = cpu.read_reg(REG_FLAGS), cpu.read_reg(REG_SP)
        frame = _FRAME.pack(error_code, ip, abi.CS, flags, sp, abi.DS)
        if vector not in _WITH_ERROR_CODE:
            frame = frame[8:]
        top = ((sp if stack is None else stack) & ~15) - len(frame)
        try:
            self._memory.write(top, frame)
        except MemoryFault:
            if vector != X86_TRAP_PF:
                cpu.set_fault_address(top)
            entry, top = self._double_fault(f"trap {vector}", ip)
        cpu.write_reg(REG_SP, top)
        cpu.write_reg(REG_FLAGS, flags & ~(X86_EFLAGS_IF | X86_EFLAGS_TF))
        cpu.write_reg(REG_IP, entry)
