# SPDX-License-Identifier: GPL-2.0-or-later
"""Handles breakpoints, as fast as it can, since it is run at every hit.

A Hit is made ready in control context for each armed address; at the trap it is found
by the trap's RIP.  If a handler is guest code, execution goes on in the site's stub and
the runtime does the rest; else the handlers are called from here.  Either way it goes
on in the slot, whose code ends in a jump back (boosted, or written anew by
emulate.slot_code()) or in an int3 (single step), which comes to stepped().

No interrupt is taken in a slot, since the machine lets them in at polls alone, so IF
need not be cleared for a single step.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from kpfs.base.abi import KP_HIT_SS, KP_HIT_SSDONE, KP_IDLE, KP_REENTER, KpRethookNode
from kpfs.base.errors import MemoryFault
from kpfs.base.ktypes import KERN_ERR, MASK64, KAddr
from kpfs.base.log import Log
from kpfs.base.x86 import X86_TRAP_GP, X86_TRAP_PF, X86_TRAP_UD
from kpfs.engine.arch.x86.checks.probe import Emulation
from kpfs.engine.arch.x86.emulate import emulate
from kpfs.engine.arch.x86.insn import INT3_INSN_OPCODE, Insn
from kpfs.engine.arch.x86.regs import (
    IP,
    SP,
    FramePtRegs,
    LivePtRegs,
    PtRegs,
)
from kpfs.engine.arch.x86.trap import GuestHandlers
from kpfs.engine.kprobe import Kprobe, PostHandler, PreHandler
from kpfs.engine.machine import Machine
from kpfs.engine.rethook import Kretprobe, RethookNode
from kpfs.engine.runtime.records import (
    CPU_WORDS,
    CURRENT,
    INSTANCE,
    MAIL0,
    MAIL1,
    MAIL2,
    MAIL_RET,
    PREV_CURRENT,
    PREV_STATUS,
    STATUS,
    KpHandler,
    KpSite,
)
from kpfs.engine.runtime.runtime import Runtime

log = Log(__name__)

_CANONICAL = 1 << 47
_NO_DATA = memoryview(b"")
_NODE_FIELDS = frozenset(("ret_addr", "frame", "task", "func", "data"))


class Hit:
    """The state that a breakpoint at one address needs."""

    __slots__ = (
        "addr", "after", "cont", "count", "emulated", "guest_posts", "handlers",
        "has_post", "insn", "plain", "posts", "records", "site", "slot", "slot_traps",
        "step", "stub", "trap_ip",
    )  # fmt: skip

    def __init__(self, addr: KAddr, site: KpSite, slot: KAddr, insn: Insn) -> None:
        self.addr = addr
        self.trap_ip = addr + 1
        self.site = site.addr
        self.count = 0  # hits that guest code has not seen
        self.slot = slot
        self.insn = insn
        self.after = insn.next_addr
        self.cont = slot  # the slot or the displaced instructions, to go on at
        self.stub = 0  # the stub of a site with guest handlers, else 0
        self.slot_traps = False  # the slot ends in a trap
        self.step = False  # so does a hit, as it goes on there
        self.emulated = Emulation.NONE  # not NONE: the slot has a trap alone
        self.handlers: tuple[tuple[PreHandler, Kprobe], ...] = ()
        self.posts: tuple[tuple[PostHandler, Kprobe], ...] = ()
        self.guest_posts = False  # a post_handler is guest code: the runtime runs all
        self.has_post = False  # a post_handler, enabled or not
        self.plain = True  # neither emulated nor with post_handlers
        self.records: Sequence[KpHandler] = ()


class LazyNode(RethookNode):
    """A node that is read from guest memory when a handler wants to know more of it."""

    def __init__(self, machine: Machine, addr: KAddr, rp: Kretprobe) -> None:
        self.machine = machine
        self.addr = addr
        self.rp = rp

    def __getattr__(self, name: str) -> object:
        """Read all fields, when one is asked for that has not been read."""
        if name not in _NODE_FIELDS:
            raise AttributeError(name)
        m, size = self.machine, self.rp.data_size
        raw = m.read(self.addr, KpRethookNode.SIZE)
        _, _, *head = KpRethookNode.STRUCT.unpack(raw)
        self.ret_addr, self.frame, self.task, self.func = head[:4]
        self.data = m.view(self.addr + KpRethookNode.data, size) if size else _NO_DATA
        return self.__dict__[name]


class HitPath:
    """Handles the traps and hypercalls of probes.  Context: hit, but for the set-up."""

    def __init__(self, machine: Machine, runtime: Runtime) -> None:
        self.machine = machine
        self.runtime = runtime
        # by the RIP of the trap, which is behind the int3
        self.hits: dict[int, Hit] = {}
        self.entries: dict[int, Hit] = {}  # by the trap of a detour buffer
        self.traps: dict[int, Hit] = {}  # by the int3 at the end of a slot
        self.slots: dict[int, Hit] = {}  # by the address of the copied instruction
        self.handlers: dict[int, Kprobe] = {}  # by struct kp_handler
        self.rethooks: dict[int, Kretprobe] = {}  # by struct kp_rethook
        self.cpus = runtime.cpu_words
        self.extable = runtime.extable
        self.live = LivePtRegs(machine)
        self.frame = FramePtRegs(machine)
        self._post_entry = runtime.symbols["kp_post_entry"]
        self.guest = GuestHandlers(machine, runtime, self.handlers)
        self.calls = 0  # Python handlers called from guest code
        self.kprobe_int3_handler = self._make_int3()
        self.entered = self._make_entered()

    # ---- breakpoints
    def _make_int3(self) -> Callable[[int], int | None]:
        """Make the int3 handler.  Kernel: kprobe_int3_handler(), setup_singlestep()"""
        get, cpu, stepped = self.hits.get, self.machine.cpu, self._make_stepped()
        cpus, regs, none = self.cpus, self.live, Emulation.NONE
        post_process, go_on_after_error = self._post_process, self._go_on_after_error

        def kprobe_int3_handler(ip: int) -> int | None:
            hit = get(ip)
            if hit is None:
                return stepped(ip)
            if hit.stub:
                return hit.stub
            base = cpu() * CPU_WORDS
            if cpus[base]:
                return self._reenter(hit, base)
            hit.count += 1
            regs.trap_ip = ip
            p = None
            try:
                for handler, p in hit.handlers:
                    if handler(p, regs):
                        return regs.write_back()
            except Exception:
                if go_on_after_error(hit, p):
                    return regs.write_back()
            if regs.changed:
                regs.write_back()
            if not hit.step:
                return hit.cont
            cpus[base] = hit.site
            cpus[base + STATUS] = KP_HIT_SS
            return hit.cont if hit.emulated is none else post_process(hit, base)

        return kprobe_int3_handler

    def _make_entered(self) -> Callable[[int], None]:
        """Make the function that a jump enters if all its handlers are Python.

        Kernel: optimized_callback()
        """
        entries, regs = self.entries, self.live
        go_on_after_error = self._go_on_after_error

        def entered(behind: int) -> None:
            hit = entries[behind]
            regs.trap_ip = hit.trap_ip
            p = None
            try:
                for handler, p in hit.handlers:
                    handler(p, regs)
            except Exception:
                go_on_after_error(hit, p)
            if regs.changed:
                regs.changed &= ~(1 << SP)
                regs.write_back()

        return entered

    def _failed(self, p: Kprobe | None, regs: PtRegs, what: str, addr: int = 0) -> None:
        """Deal with an exception of p's Python handler, in the except clause.

        If it read memory that is not there, that is a fault in a handler: p's
        fault_handler is asked, with the registers of the hit.  Else it is a bug.
        Kernel: aggr_fault_handler()
        """
        fault = sys.exc_info()[1]
        if p is not None and callable(p.fault_handler):
            if isinstance(fault, MemoryFault):
                low = (fault.addr + _CANONICAL) & MASK64 < 2 * _CANONICAL
                try:
                    if p.fault_handler(p, regs, X86_TRAP_PF if low else X86_TRAP_GP):
                        return
                except Exception:
                    log.exception("fault_handler of the probe at %#x failed", p.addr)
        log.exception("%s of the probe at %#x failed", what, p.addr if p else addr)

    def _go_on_after_error(self, hit: Hit, failed: Kprobe | None) -> bool:
        """Call the pre_handlers after one that raised; whether one set the ip."""
        self._failed(failed, self.live, "handler", hit.addr)
        later = False
        for handler, p in hit.handlers:
            try:
                if later and handler(p, self.live):
                    return True
            except Exception:
                self._failed(p, self.live, "handler")
            later = later or p is failed
        return False

    def _reenter(self, hit: Hit, base: int) -> int:
        """Step a probe hit during another one's handling.  Kernel: reenter_kprobe()"""
        hit.count += 1
        for record in hit.records:
            record.nmissed += 1
        if hit.step:
            cpus = self.cpus
            if cpus[base + STATUS] == KP_REENTER:
                self.machine.log.printk(
                    KERN_ERR, f"kprobes: Unrecoverable kprobe detected at {hit.addr:#x}"
                )
            cpus[base + PREV_CURRENT] = cpus[base + CURRENT]
            cpus[base + PREV_STATUS] = cpus[base + STATUS]
            cpus[base + CURRENT] = hit.site
            cpus[base + STATUS] = KP_REENTER
            if hit.emulated is not Emulation.NONE:
                return self._post_process(hit, base)
        return hit.cont

    def _make_stepped(self) -> Callable[[int], int | None]:
        """Make the handler of traps behind slots.  Kernel: resume_singlestep()"""
        get, cpu, cpus = self.traps.get, self.machine.cpu, self.cpus

        def stepped(ip: int) -> int | None:
            """Handle the trap behind a copied instruction; None: ip is no copy's."""
            hit = get(ip)
            if hit is None:
                # a breakpoint that has just been removed, or somebody else's
                gone = self.machine.read(ip - 1, 1)[0] != INT3_INSN_OPCODE
                return ip - 1 if gone else self.guest.breakpoint(ip)
            base = cpu() * CPU_WORDS
            if not hit.plain or cpus[base + STATUS] == KP_REENTER:
                return self._post_process(hit, base)
            cpus[base] = 0  # CURRENT
            cpus[base + STATUS] = KP_IDLE
            return hit.after

        return stepped

    def _post_process(self, hit: Hit, base: int) -> int:
        """End a single step: call post_handlers.  Kernel: kprobe_post_process()"""
        after, regs, cpus = hit.after, self.live, self.cpus
        if hit.emulated is not Emulation.NONE:
            regs.trap_ip = after
            emulate(self.machine, hit.insn, hit.emulated, regs)
            after = regs.write_back()
        if cpus[base + STATUS] == KP_REENTER:
            cpus[base + CURRENT] = cpus[base + PREV_CURRENT]
            cpus[base + STATUS] = cpus[base + PREV_STATUS]
            return after
        if hit.guest_posts:
            cpus[base + MAIL2] = after
            return self._post_entry
        cpus[base + STATUS] = KP_HIT_SSDONE
        regs.trap_ip = after
        for handler, p in hit.posts:
            try:
                handler(p, regs, 0)
            except Exception:
                self._failed(p, regs, "post_handler")
        if regs.changed:
            after = regs.write_back()
        cpus[base + CURRENT] = 0
        cpus[base + STATUS] = KP_IDLE
        return after

    # ---- faults
    def kprobe_fault_handler(self, trapnr: int, ip: int, addr: int) -> int | None:
        """Handle a fault in a slot for its probe.  Kernel: kprobe_fault_handler()"""
        if ip in self.extable:
            return self.extable[ip]
        cpus = self.cpus
        base = self.machine.cpu() * CPU_WORDS
        hit = self.slots.get(ip)
        if hit is None and not cpus[base]:
            return None
        if hit is None and trapnr == X86_TRAP_UD and self.machine.text.is_bug_site(ip):
            return None  # a BUG or WARN in a handler is no fault
        instance = self.handlers.get(cpus[base + INSTANCE])
        fault_ip, site = ip, 0
        if hit is not None:
            site = hit.site
            ip = hit.addr
            self.machine.write_reg(IP, ip)
            if cpus[base + STATUS] == KP_REENTER:
                cpus[base + CURRENT] = cpus[base + PREV_CURRENT]
                cpus[base + STATUS] = cpus[base + PREV_STATUS]
            elif cpus[base] == hit.site:
                cpus[base + CURRENT] = 0
                cpus[base + STATUS] = KP_IDLE
            probes = [self.handlers[r.addr] for r in hit.records]
        else:
            probes = [] if instance is None else [instance]
        regs = self.live
        regs.trap_ip = ip
        for p in probes:
            if callable(p.fault_handler):
                try:
                    handled = p.fault_handler(p, regs, trapnr)
                except Exception:
                    log.exception("fault_handler of %#x failed", ip)
                    continue
                if handled:
                    return regs.write_back()
        if regs.changed:
            regs.write_back()
        return self.guest.fault(trapnr, fault_ip, ip, site, probes)

    # ---- Python handlers called by the runtime
    def py_handler(self, eax: int) -> None:
        """Call a pre_handler for the runtime's kp_py_handler()."""
        base = eax * CPU_WORDS
        cpus, regs = self.cpus, self.frame
        p = self.handlers[cpus[base + MAIL0]]
        regs.addr = cpus[base + MAIL1]
        self.calls += 1
        try:
            taken = p.pre_handler(p, regs)  # type: ignore[operator,misc]
            cpus[base + MAIL_RET] = 1 if taken else 0
        except Exception:
            self._failed(p, regs, "handler")
            cpus[base + MAIL_RET] = 0

    def py_break(self, eax: int) -> None:
        """Call a break_handler for the runtime's kp_py_break()."""
        base = eax * CPU_WORDS
        cpus, regs = self.cpus, self.frame
        p = self.handlers[cpus[base + MAIL0]]
        regs.addr = cpus[base + MAIL1]
        try:
            handled = p.break_handler(p, regs)  # type: ignore[operator,misc]
            cpus[base + MAIL_RET] = 1 if handled else 0
        except Exception:
            self._failed(p, regs, "break_handler")
            cpus[base + MAIL_RET] = 0

    def py_post(self, eax: int) -> None:
        """Call a post_handler for the runtime's kp_py_post()."""
        base = eax * CPU_WORDS
        cpus, regs = self.cpus, self.frame
        p = self.handlers[cpus[base + MAIL0]]
        regs.addr = cpus[base + MAIL1]
        try:
            p.post_handler(p, regs, 0)  # type: ignore[operator,misc]
        except Exception:
            self._failed(p, regs, "post_handler")

    def _node(self, base: int) -> RethookNode:
        cpus = self.cpus
        rp = self.rethooks[cpus[base + MAIL2]]
        self.frame.addr = cpus[base + MAIL1]
        self.calls += 1
        return LazyNode(self.machine, KAddr(cpus[base + MAIL0]), rp)

    def py_entry(self, eax: int) -> None:
        """Call an entry handler for the runtime's kp_py_entry()."""
        base = eax * CPU_WORDS
        skip: object = 0
        node = self._node(base)
        try:
            skip = node.rp.entry_handler(node, self.frame)  # type: ignore[operator,misc]
        except Exception:
            self._failed(node.rp.kp, self.frame, "entry_handler")
        self.cpus[base + MAIL_RET] = 1 if skip else 0

    def py_return(self, eax: int) -> None:
        """Call a return handler for the runtime's kp_py_return()."""
        node = self._node(eax * CPU_WORDS)
        try:
            node.rp.handler(node, self.frame)  # type: ignore[operator,misc]
        except Exception:
            self._failed(node.rp.kp, self.frame, "return handler")
