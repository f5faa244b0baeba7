# SPDX-License-Identifier: GPL-2.0-or-later
"""Jump optimisation on x86: makes detour buffers, and writes jumps to them.

A detour buffer is a stub (see engine/runtime/entry.S, lite.S), the displaced
instructions moved there, and a jump back behind them.  The stub goes on at the
displaced instructions.
"""

from __future__ import annotations

from collections.abc import Sequence

from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KAddr
from kpfs.base.typed import cast
from kpfs.engine.arch.x86.ainsn import ainsn_of
from kpfs.engine.arch.x86.checks.optimize import Obstacle, can_optimize
from kpfs.engine.arch.x86.checks.probe import JMP32_INSN_SIZE, KernelView, relocate
from kpfs.engine.arch.x86.emulate import INT3
from kpfs.engine.arch.x86.hit import Hit, HitPath
from kpfs.engine.arch.x86.insn import MAX_INSN_SIZE
from kpfs.engine.arch.x86.stub import Stubs
from kpfs.engine.arch.x86.text_patching import TextPatcher, jmp
from kpfs.engine.arch_hooks import Core
from kpfs.engine.kprobe import (
    ArchOptInsn,
    Kprobe,
    OptimizedKprobe,
    kprobe_disarmed,
    kprobe_optimized,
)
from kpfs.engine.runtime.runtime import Runtime
from kpfs.engine.slots import KprobeInsnCache

# the displaced instructions are at most the 4 bytes behind a breakpoint and one more
DISPLACED_SIZE = JMP32_INSN_SIZE - 1 + MAX_INSN_SIZE + JMP32_INSN_SIZE


class Optinsn(ArchOptInsn):
    """The detour buffer of one probe.  Kernel: struct arch_optimized_insn"""

    __slots__ = ("buffer", "code", "displaced", "in_text", "size", "stub")

    def __init__(self, buffer: KAddr, displaced: KAddr, code: bytes) -> None:
        self.buffer = buffer
        self.displaced = displaced  # the address of the displaced instructions
        self.stub = 0  # bytes of the stub
        self.size = len(code)
        self.code = code  # the original bytes covered, 5 or more
        self.in_text = False  # the jump is written, or what break_jump() leaves of it


def optinsn_of(op: OptimizedKprobe) -> Optinsn:
    """Return the record of a probe that is prepared to be a jump."""
    assert isinstance(op.optinsn, Optinsn)
    return op.optinsn


class OptProbes:
    """Implements kpfs.engine.arch_hooks.Optimizer.  Context: control."""

    def __init__(
        self,
        core: Core,
        text: KernelView,
        patcher: TextPatcher,
        runtime: Runtime,
        stubs: Stubs,
        path: HitPath,
    ) -> None:
        self._core = core
        self._text = text
        self._patcher = patcher
        self._stubs = stubs
        self._entries: dict[int, Hit] = path.entries
        self._displaced_at = stubs.size
        symbols = runtime.symbols
        code, trap = "kp_lite_opt_python", "kp_lite_opt_python_trap"
        self._trap_at = symbols[trap] - symbols[code]
        size = self._displaced_at + DISPLACED_SIZE + 15 & ~15
        self.optinsn_slots = KprobeInsnCache(core.machine, size, "kprobe_optinsn_page")

    def prepare(self, op: OptimizedKprobe) -> None:
        """Kernel: arch_prepare_optimized_kprobe()"""
        region = can_optimize(self._text, op.addr)
        if isinstance(region, Obstacle):
            return
        buffer = self.optinsn_slots.get_insn_slot()
        at = KAddr(buffer + self._displaced_at)
        displaced = b""
        try:
            for insn in region.insns:
                displaced += relocate(insn, at + len(displaced))
        except KernelError:
            self.optinsn_slots.free_insn_slot(buffer, dirty=False)
            return
        displaced += jmp(at + len(displaced), op.addr + len(region.code))
        self._patcher.fill(at, displaced)
        op.optinsn = Optinsn(buffer, at, region.code)

    def check(self, op: OptimizedKprobe) -> bool:
        """Kernel: arch_check_optimized_kprobe()"""
        table = self._core.kprobe_table
        covered = cast("Sequence[KAddr]", self.covered(op)[1:])
        if table.keys().isdisjoint(covered):
            return True
        for addr in covered:
            p = table.get(addr)
            if p is not None and not kprobe_disarmed(p):
                return False
        return True

    def covered(self, op: OptimizedKprobe) -> range:
        """Kernel: arch_within_optimized_kprobe()"""
        return range(op.addr, op.addr + optinsn_of(op).size)

    def buffer(self, op: OptimizedKprobe) -> KAddr | None:
        return None if op.optinsn is None else optinsn_of(op).buffer

    def continuation(self, p: Kprobe) -> KAddr | None:
        """Return where a hit goes on if p is a jump or is to become one, else None."""
        if not isinstance(p, OptimizedKprobe) or p.optinsn is None:
            return None
        return optinsn_of(p).displaced if kprobe_optimized(p) else None

    def detour(self, op: OptimizedKprobe, on: bool) -> None:
        """Kernel: setup_detour_execution()"""
        ainsn = ainsn_of(op)
        assert ainsn.hit is not None
        self._stubs.go_on_at(ainsn, optinsn_of(op).displaced if on else ainsn.hit.slot)

    def optimize(self, op: OptimizedKprobe) -> None:
        """Turn the breakpoint into a jump.  Kernel: arch_optimize_kprobes()"""
        optinsn = optinsn_of(op)
        buffer = optinsn.buffer
        self.write_stub(op)
        optinsn.in_text = True
        self._patcher.patch(
            op.addr, jmp(op.addr, buffer), optinsn.code[:JMP32_INSN_SIZE]
        )

    def write_stub(self, op: OptimizedKprobe) -> None:
        """Write the stub of the detour buffer, for the handlers as they are now."""
        optinsn = optinsn_of(op)
        buffer, displaced = optinsn.buffer, optinsn.displaced
        ainsn = ainsn_of(op)
        stub = self._stubs.code(ainsn, buffer, "opt", displaced)
        optinsn.stub = len(stub)
        self._patcher.poke(buffer, stub)
        assert ainsn.hit is not None
        self._entries[buffer + self._trap_at] = ainsn.hit

    def entry_changed(self, p: Kprobe) -> None:
        """Write the stub anew, if in use, as p.ainsn's way in has changed."""
        if isinstance(p, OptimizedKprobe) and p.optinsn and optinsn_of(p).in_text:
            self.write_stub(p)

    def break_jump(self, p: Kprobe) -> None:
        """Put a breakpoint before what is left of a jump that is not undone yet.

        It stays, as the probe is said to be a jump already, until that is undone.
        Kernel: arch_arm_kprobe(), which writes one byte whatever stands there
        """
        if not isinstance(p, OptimizedKprobe) or not p.optinsn:
            return
        optinsn = optinsn_of(p)
        if optinsn.in_text:
            jump = jmp(p.addr, optinsn.buffer)
            code = optinsn.code[:JMP32_INSN_SIZE]
            self._patcher.patch(p.addr, INT3 + jump[len(INT3) :], code)

    def unoptimize(self, op: OptimizedKprobe) -> None:
        """Turn the jump into a breakpoint.  Kernel: arch_unoptimize_kprobe()"""
        optinsn = optinsn_of(op)
        if not optinsn.in_text:
            return
        optinsn.in_text = False
        self.detour(op, False)
        self._patcher.patch(op.addr, INT3, optinsn.code[:JMP32_INSN_SIZE])

    def remove(self, op: OptimizedKprobe) -> None:
        """Kernel: arch_remove_optimized_kprobe()"""
        if op.optinsn is None:
            return
        optinsn = optinsn_of(op)
        if op.ainsn is not None:
            self.detour(op, False)
        op.optinsn = None
        self.optinsn_slots.free_insn_slot(optinsn.buffer)
        self._entries.pop(optinsn.buffer + self._trap_at, None)
