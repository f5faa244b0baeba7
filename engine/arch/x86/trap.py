# SPDX-License-Identifier: GPL-2.0-or-later
"""Breakpoints and faults that guest code must be asked about: break and fault handlers.

Guest code is entered through kp_break_entry and kp_fault_entry of the runtime.  If it
does not want the trap, the trapping instruction is run once more, with its address in
kp_cpu.declined: that time nobody is asked, and the machine goes on as without us (other
notifiers, the exception table, an oops).
"""

from __future__ import annotations

from collections.abc import Sequence

from kpfs.abi import KP_IDLE, KpJprobe
from kpfs.engine.arch.x86.regs import CS, KERNEL_CS, KERNEL_DS, ORIG_AX, SS
from kpfs.engine.kprobe import Kprobe
from kpfs.engine.ktypes import MASK64, KAddr
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
    """Ways into break and fault handlers that are guest code.

    Context: hit, but for the set-up and prepare_jprobes().
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

    def prepare_jprobes(self) -> KAddr | None:
        """Give each CPU its struct kp_jprobe; the address behind the trap that ends it.

        Context: control.
        """
        for cpu in self.runtime.cpus:
            if not cpu.jprobe:
                cpu.jprobe = self.runtime.heap.alloc(KpJprobe.SIZE)
                for at, value in ((ORIG_AX, MASK64), (CS, KERNEL_CS), (SS, KERNEL_DS)):
                    self.machine.write_u64(KAddr(cpu.jprobe + 8 * at), value)
        found = self.machine.kallsyms.lookup_name("jprobe_return_end")
        return found[0].addr if found else None

    # ---- breakpoints that are no probe's
    def breakpoint(self, ip: int) -> int | None:
        """An int3 before ip that is not ours: is it a handler's?

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
        """A fault at ip in a handler, or (site set) in a copied instruction.

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

    def running(self) -> Kprobe | None:
        """The probe whose handler runs on this CPU.  Kernel: kprobe_running()"""
        base = self.machine.cpu() * CPU_WORDS
        if not self.cpus[base + CURRENT] or self.cpus[base + STATUS] == KP_IDLE:
            return None
        return self.handlers.get(self.cpus[base + INSTANCE])
