# SPDX-License-Identifier: GPL-2.0-or-later
"""Watch memory: tell after each instruction which watched bytes it has used.

A memory hook sees each access before it is made, but the run can only be left behind
it, in the middle of the instruction.  So the access is undone there, and the
instruction is run once more by a single step (TF), at whose trap it is known what it
has touched.  Reads are hooked even where writes alone are looked for: an instruction
that reads, modifies and writes is left at its read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kpfs.base.x86 import X86_EFLAGS_TF
from kpfs.guest.emu.cpu import Cpu
from kpfs.guest.emu.cpu_registers import REG_FLAGS, REG_IP, REG_SP
from kpfs.guest.emu.memory import Memory

_TRAP_DB = 1
_PUSHF, _PUSHF_16 = 0x9C, b"\x66\x9c"


class _Access(NamedTuple):
    """An access at which the run is left."""

    ip: int
    addr: int
    before: bytes  # the bytes before a write


class DataWatch:
    """Calls ``touched`` for accesses, and ``done`` with what it returned, in one.

    ``touched`` gets whether it is a write, the physical address and the size, and
    returns bits; ``done`` gets all bits of an instruction, if any, when it has run.
    """

    def __init__(
        self,
        cpu: Cpu,
        memory: Memory,
        trap: Callable[[int], None],
        *,
        wanted: Callable[[], bool],
        touched: Callable[[bool, int, int], int],
        done: Callable[[int], None],
    ) -> None:
        """trap: what handles traps.  wanted: whether to look at all, just now."""
        self._cpu = cpu
        self._memory = memory
        self._handle = trap
        self._wanted = wanted
        self._touched = touched
        self._done = done
        self._access: _Access | None = None
        self._again = False  # the run was left for our sake alone
        self._stepping = False
        self._pushes_flags = False  # the instruction that is stepped
        self._bits = 0
        cpu.on_access(self._accessed)

    def set(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Watch physical ranges (first, last) for accesses.  Context: control."""
        ranges = list(ranges)
        if ranges:
            self._cpu.on_trap(self._trap, self._go_on)
        else:
            self._cpu.on_trap(self._handle)
        self._cpu.hook_memory(ranges)

    # ---- hit
    def _accessed(self, write: bool, addr: int, size: int) -> None:
        if not self._wanted():
            return
        self._bits |= self._touched(write, addr, size)
        if not self._stepping and self._access is None:
            before = self._memory.ram[addr : addr + size] if write else b""
            self._access = _Access(self._cpu.read_reg(REG_IP), addr, before)
            self._cpu.end_run()

    def _trap(self, vector: int) -> None:
        """Handle a trap other than a breakpoint.

        RIP may have been written then, and a run in which that happened does not say
        where accesses are.  So a new one is begun.
        """
        if not self._end_step(vector):
            self._handle(vector)
        self._again = True
        self._cpu.end_run()

    def _end_step(self, vector: int) -> bool:
        """Return True if a trap is the end of a step; a fault ends it too."""
        if not self._stepping:
            return False
        cpu = self._cpu
        self._stepping = False
        cpu.write_reg(REG_FLAGS, cpu.read_reg(REG_FLAGS) & ~X86_EFLAGS_TF)
        if vector != _TRAP_DB:
            self._bits = 0
            return False
        if self._pushes_flags:
            at = self._memory.translate(cpu.read_reg(REG_SP), 2) + 1
            self._memory.ram[at] &= ~(X86_EFLAGS_TF >> 8)
        self._report()
        return True

    def _report(self) -> None:
        bits, self._bits = self._bits, 0
        if bits:
            self._done(bits)

    # ---- control, between two runs
    def _go_on(self) -> bool:
        """Return True if the run ended for a watch alone; prepare the next step."""
        access, self._access = self._access, None
        again, self._again = self._again, False
        if access is None:
            return again
        if self._cpu.read_reg(REG_IP) != access.ip:
            self._report()  # one that cannot be left in its middle
        else:
            self._begin_step(access)
        return True

    def _begin_step(self, access: _Access) -> None:
        cpu, memory = self._cpu, self._memory
        memory.ram[access.addr : access.addr + len(access.before)] = access.before
        code = memory.read(access.ip, 2)
        self._pushes_flags = code[0] == _PUSHF or code == _PUSHF_16
        cpu.write_reg(REG_FLAGS, cpu.read_reg(REG_FLAGS) | X86_EFLAGS_TF)
        self._stepping, self._bits = True, 0
