# SPDX-License-Identifier: GPL-2.0-or-later
"""Jprobes on x86: sets up what engine/runtime/jprobe.S needs."""

from __future__ import annotations

from kpfs.base.abi import KpJprobe
from kpfs.base.ktypes import MASK64, KAddr
from kpfs.engine.arch.x86.emulate import INT3
from kpfs.engine.arch.x86.hit import Hit, HitPath
from kpfs.engine.arch.x86.regs import CS, KERNEL_CS, KERNEL_DS, ORIG_AX, SS
from kpfs.engine.arch.x86.text_patching import TextPatcher, jmp
from kpfs.engine.runtime.runtime import Runtime

TRAP = INT3 + b"\x90\x90\x90\x90"  # jprobe_return()'s, with room for a jump


class Jprobes:
    """Implements kpfs.engine.arch_hooks.Jprobes.  Context: control."""

    def __init__(self, runtime: Runtime, path: HitPath, patcher: TextPatcher) -> None:
        self._runtime = runtime
        self._path = path
        self._patcher = patcher
        self._trap = KAddr(0)
        self._users = 0
        self.pre_handler = runtime.symbols["kp_setjmp_pre"]
        self.break_handler = runtime.symbols["kp_longjmp_break"]

    def prepare(self) -> None:
        """Give each CPU its struct kp_jprobe; pass it jprobe_return()'s trap.

        That is the breakpoint which ends an entry function that is guest code.
        """
        runtime, hits = self._runtime, self._path.hits
        for cpu in runtime.cpus:
            if not cpu.jprobe:
                cpu.jprobe = runtime.heap.alloc(KpJprobe.SIZE)
                for at, value in ((ORIG_AX, MASK64), (CS, KERNEL_CS), (SS, KERNEL_DS)):
                    runtime.machine.write_u64(KAddr(cpu.jprobe + 8 * at), value)
        for symbol in runtime.machine.kallsyms.lookup_name("jprobe_return_end")[:1]:
            if symbol.addr not in hits:
                hit = Hit.__new__(Hit)  # no probe's: only its stub is used
                hit.stub = runtime.symbols["kp_jprobe_trap"]
                hits[symbol.addr] = hit
                self._trap = KAddr(symbol.addr - len(INT3))

    def count(self, more: int) -> None:
        """There is one more (1) or one less (-1) whose entry is guest code.

        As long as there is any, a jump stands over jprobe_return()'s trap, if the
        kernel has room for it: the trap costs as much as all the rest of a hit where
        no breakpoint is.
        """
        before = self._users
        self._users += more
        if not self._users:
            self._patcher.unpatch(self._trap)
        elif not before and self._trap:
            original = bytes(self._runtime.machine.read(self._trap, len(TRAP)))
            if original == TRAP:
                to = self._runtime.symbols["kp_jprobe_trap"]
                self._patcher.patch(self._trap, jmp(self._trap, to), original)
