# SPDX-License-Identifier: GPL-2.0-or-later
"""Jump optimisation on x86: detour buffers, and jumps for breakpoints.

A detour buffer is a stub (see engine/runtime/entry.S, lite.S), the displaced
instructions moved there, and a jump back behind them.  The stub goes on at the
displaced instructions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kpfs.engine.arch.x86.checks.optimize import Obstacle, can_optimize
from kpfs.engine.arch.x86.checks.probe import JMP32_INSN_SIZE, relocate
from kpfs.engine.arch.x86.emulate import INT3
from kpfs.engine.arch.x86.insn import MAX_INSN_SIZE
from kpfs.engine.arch.x86.text_patching import jmp
from kpfs.engine.arch_hooks import Core
from kpfs.engine.errors import KernelError
from kpfs.engine.kprobe import Kprobe, OptimizedKprobe, kprobe_disarmed
from kpfs.engine.ktypes import KAddr
from kpfs.engine.slots import KprobeInsnCache

if TYPE_CHECKING:
    from kpfs.engine.arch.x86.core import X86

# the displaced instructions are at most the 4 bytes behind a breakpoint and one more
DISPLACED_SIZE = JMP32_INSN_SIZE - 1 + MAX_INSN_SIZE + JMP32_INSN_SIZE


class Optinsn:
    """Kernel: struct arch_optimized_insn"""

    __slots__ = ("buffer", "code", "displaced", "in_text", "size", "stub")

    def __init__(self, buffer: KAddr, displaced: KAddr, size: int, code: bytes) -> None:
        self.buffer = buffer
        self.displaced = displaced  # where the displaced instructions are
        self.stub = 0  # bytes of the stub
        self.size = size  # bytes covered, 5 or more
        self.code = code  # the original bytes covered
        self.in_text = False  # the jump is written


class OptProbes:
    """Context: control."""

    def __init__(self, x86: X86, core: Core) -> None:
        self.x86 = x86
        self.core = core
        self.displaced_at = x86.stubs.size
        symbols = x86.runtime.symbols
        code, trap = "kp_lite_opt_python", "kp_lite_opt_python_trap"
        self.trap_at = symbols[trap] - symbols[code]
        size = self.displaced_at + DISPLACED_SIZE + 15 & ~15
        self.optinsn_slots = KprobeInsnCache(x86.machine, size, "kprobe_optinsn_page")

    def prepare(self, op: OptimizedKprobe) -> None:
        """Kernel: arch_prepare_optimized_kprobe()"""
        assert op.addr is not None
        region = can_optimize(self.x86.text, op.addr)
        if isinstance(region, Obstacle):
            return
        buffer = self.optinsn_slots.get_insn_slot()
        at = KAddr(buffer + self.displaced_at)
        displaced = b""
        try:
            for insn in region.insns:
                displaced += relocate(insn, at + len(displaced))
        except KernelError:
            self.optinsn_slots.free_insn_slot(buffer, dirty=False)
            return
        displaced += jmp(at + len(displaced), op.addr + region.size)
        self.x86.patcher.poke(at, displaced)
        code = b"".join(insn.raw for insn in region.insns)
        op.optinsn = Optinsn(buffer, at, region.size, code)

    def check(self, op: OptimizedKprobe) -> bool:
        """Kernel: arch_check_optimized_kprobe()"""
        assert op.addr is not None
        table = self.core.kprobe_table
        covered = range(op.addr + 1, op.addr + op.optinsn.size)
        if table.keys().isdisjoint(covered):
            return True
        for addr in covered:
            p = table.get(KAddr(addr))
            if p is not None and not kprobe_disarmed(p):
                return False
        return True

    def within(self, op: OptimizedKprobe, addr: KAddr) -> bool:
        """Kernel: arch_within_optimized_kprobe()"""
        assert op.addr is not None
        optinsn: Optinsn = op.optinsn
        return op.addr <= addr < op.addr + optinsn.size

    def continuation(self, p: Kprobe) -> KAddr | None:
        """Where a hit goes on while the jump is in the text, else None."""
        if not isinstance(p, OptimizedKprobe) or p.optinsn is None:
            return None
        optinsn: Optinsn = p.optinsn
        return optinsn.displaced if optinsn.in_text else None

    def optimize(self, op: OptimizedKprobe) -> None:
        """Breakpoint to jump.  Kernel: arch_optimize_kprobes()"""
        assert op.addr is not None
        optinsn: Optinsn = op.optinsn
        buffer = optinsn.buffer
        self.write_stub(op)
        optinsn.in_text = True
        op.ainsn.hit.cont = op.ainsn.site.cont = optinsn.displaced
        self.x86.patcher.patch(
            op.addr, jmp(op.addr, buffer), optinsn.code[:JMP32_INSN_SIZE]
        )

    def write_stub(self, op: OptimizedKprobe) -> None:
        """The head of the detour buffer, for the site's handlers as they are now."""
        optinsn: Optinsn = op.optinsn
        buffer, displaced = optinsn.buffer, optinsn.displaced
        stub = self.x86.stubs.code(op.ainsn, buffer, "opt", displaced)
        optinsn.stub = len(stub)
        self.x86.patcher.poke(buffer, stub)
        self.x86.path.entries[buffer + self.trap_at] = op.ainsn.hit

    def entry_changed(self, p: Kprobe) -> None:
        """p.ainsn.entry is another one: if the detour buffer is in use, tell it."""
        if isinstance(p, OptimizedKprobe) and self.continuation(p):
            self.write_stub(p)

    def unoptimize(self, op: OptimizedKprobe) -> None:
        """Jump to breakpoint.  Kernel: arch_unoptimize_kprobe()"""
        assert op.addr is not None
        optinsn: Optinsn = op.optinsn
        if not optinsn.in_text:
            return
        optinsn.in_text = False
        hit = op.ainsn.hit
        hit.cont = op.ainsn.site.cont = hit.slot
        self.x86.patcher.patch(op.addr, INT3, optinsn.code[:JMP32_INSN_SIZE])

    def remove(self, op: OptimizedKprobe) -> None:
        """Kernel: arch_remove_optimized_kprobe()"""
        optinsn: Optinsn | None = op.optinsn
        op.optinsn = None
        if optinsn is None:
            return
        slots = self.optinsn_slots
        if op.ainsn is not None:
            hit = op.ainsn.hit
            hit.cont = op.ainsn.site.cont = hit.slot
        slots.free_insn_slot(optinsn.buffer)
        self.x86.path.entries.pop(optinsn.buffer + self.trap_at, None)
