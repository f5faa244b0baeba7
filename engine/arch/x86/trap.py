# SPDX-License-Identifier: GPL-2.0-or-later
"""Passes breakpoints and faults to break and fault handlers that are guest code.

Guest code is entered through kp_break_entry and kp_fault_entry of the runtime.  If it
does not want the trap, the trapping instruction is run once more, with its address in
kp_cpu.declined: that time nobody is asked, and the machine does what it would without
kprobes (other notifiers, the exception table, an oops).
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence

from kpfs.base import abi
from kpfs.base.abi import KP_IDLE, KP_REENTER
from kpfs.base.x86 import X86_EFLAGS_IF, X86_EFLAGS_TF
from kpfs.engine.arch.x86.regs import FLAGS, IP, NR_REGS, SP
from kpfs.engine.arch_hooks import ControlBlock
from kpfs.engine.kprobe import Kprobe
from kpfs.engine.machine import Machine
from kpfs.engine.runtime.records import (
    CPU_WORDS,
    CURRENT,
    DECLINED,
    IN_FAULT,
    INSTANCE,
    MAIL0,
    MAIL1,
    MAIL2,
    MAIL3,
    MAIL_RET,
    STATUS,
)
from kpfs.engine.runtime.runtime import Runtime


class GuestHandlers:
    """Finds the break or fault handler to be entered, and knows what is handled.

    Implements kpfs.engine.arch_hooks.Running.

    Context: hit, but for the set-up and where it says otherwise.
    """

    def __init__(
        self, machine: Machine, runtime: Runtime, handlers: dict[int, Kprobe]
    ) -> None:
        """handlers: probes by their struct kp_handler."""
        self.machine = machine
        self.runtime = runtime
        self.handlers = handlers
        self.cpus = runtime.cpu_words
        self._break_entry = runtime.symbols["kp_break_entry"]
        self._fault_entry = runtime.symbols["kp_fault_entry"]

    # ---- breakpoints that are no probe's
    def breakpoint(self, ip: int) -> int | None:
        """Return where to go on after an int3 before ip, None if it is another's.

        Kernel: kprobe_int3_handler(), with a kprobe_running()
        """
        cpus = self.cpus
        base = self.machine.cpu() * CPU_WORDS
        if not cpus[base + CURRENT]:
            return None
        if cpus[base + DECLINED] == ip - 1:
            cpus[base + DECLINED] = 0
            return None
        p = self.handlers.get(cpus[base + INSTANCE])
        if p is None or p.break_handler is None:
            return None
        cpus[base + MAIL2] = ip
        return self._break_entry

    # ---- faults
    def fault(
        self, trapnr: int, ip: int, shown: int, site: int, probes: Sequence[Kprobe]
    ) -> int | None:
        """Return where to go on after a fault at ip, None if no handler is to be asked.

        site: 0 for a fault in a handler, else that of the copied instruction at ip.
        shown: the ip that handlers see.
        """
        cpus = self.cpus
        base = self.machine.cpu() * CPU_WORDS
        if cpus[base + DECLINED] == ip:
            cpus[base + DECLINED] = 0
        elif not cpus[base + IN_FAULT]:
            asked = [
                p
                for p in probes
                if p.fault_handler is not None and not callable(p.fault_handler)
            ]
            if asked:
                cpus[base + MAIL0] = 0 if site else asked[0].handler or 0
                cpus[base + MAIL1] = site
                cpus[base + MAIL2] = shown
                cpus[base + MAIL3] = ip
                cpus[base + MAIL_RET] = trapnr
                return self._fault_entry
        return None

    # ---- what is being handled
    def kprobe_running(self) -> Kprobe | None:
        """Return the probe whose handler runs on this CPU.  Kernel: kprobe_running()"""
        base = self.machine.cpu() * CPU_WORDS
        if not self.cpus[base + CURRENT] or self.cpus[base + STATUS] == KP_IDLE:
            return None
        return self.handlers.get(self.cpus[base + INSTANCE])

    def kprobe_ctlblk(self) -> ControlBlock:
        """Kernel: get_kprobe_ctlblk()"""
        cpu = self.runtime.cpus[self.machine.cpu()]
        site, status = cpu.current_kprobe, cpu.status
        if not site:
            return ControlBlock(KP_IDLE)
        read_u64 = self.machine.read_u64
        old_flags = read_u64(cpu.regs + 8 * FLAGS) & (X86_EFLAGS_TF | X86_EFLAGS_IF)
        block = ControlBlock(status, old_flags)
        if status == KP_REENTER and cpu.prev_kprobe:
            newest = read_u64(cpu.prev_kprobe + abi.KpSite.first)
            previous = self.handlers.get(newest)
            block = block._replace(previous=previous, previous_status=cpu.prev_status)
        if cpu.jprobe:
            raw = self.machine.read(cpu.jprobe, abi.KpJprobe.SIZE)
            regs, size, *stack = abi.KpJprobe.STRUCT.unpack(raw)
            if size:
                words = list(struct.unpack(f"<{NR_REGS}Q", regs))
                # the shortest way to an entry function leaves this word alone
                words[IP] = read_u64(site + abi.KpSite.addr) + 1
                block = block._replace(
                    jprobe_sp=words[SP], jprobe_regs=words, jprobe_stack=stack
                )
        return block

    def statuses(self, p: Kprobe) -> list[int]:
        """Return the states of the paper's figure, CPU by CPU.  Context: control."""
        found = []
        for c in self.runtime.cpus:
            status = KP_IDLE
            if p.site and c.current_kprobe == p.site:
                status = c.status
            elif p.site and c.status == KP_REENTER and c.prev_kprobe == p.site:
                status = c.prev_status
            found.append(status)
        return found

    def cpus_handling(self) -> Collection[int]:
        """Return the CPUs that are handling a probe.  Context: control."""
        return [n for n, c in enumerate(self.runtime.cpus) if c.current_kprobe]

    def kprobe_reset(self, cpu: int) -> bool:
        """Forget what the CPU was handling; whether it was.  Context: control."""
        handling = bool(self.runtime.cpus[cpu].current_kprobe)
        self.runtime.reset_cpu(cpu)
        return handling
