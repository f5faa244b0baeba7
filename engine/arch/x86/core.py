# SPDX-License-Identifier: GPL-2.0-or-later
"""The x86-64 side of kprobes: what kpfs.engine.arch_hooks.Arch asks for."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence

from kpfs.base import abi
from kpfs.base.errors import KernelError, MemoryFault
from kpfs.base.ktypes import KAddr
from kpfs.engine.arch.x86.ainsn import Ainsn, StubEntry, ainsn_of, is_guest
from kpfs.engine.arch.x86.checks import probe as checks
from kpfs.engine.arch.x86.checks.probe import KPROBE_SLOT_SIZE, Emulation
from kpfs.engine.arch.x86.emulate import INT3, slot_code
from kpfs.engine.arch.x86.ftrace import FtraceSites
from kpfs.engine.arch.x86.hit import Hit, HitPath
from kpfs.engine.arch.x86.jprobe import Jprobes
from kpfs.engine.arch.x86.listing import text_listing
from kpfs.engine.arch.x86.opt import OptProbes
from kpfs.engine.arch.x86.regs import CallRegisters
from kpfs.engine.arch.x86.rethook import Rethooks
from kpfs.engine.arch.x86.stub import PARTS_MAX, Stubs
from kpfs.engine.arch.x86.text_patching import TextPatcher, jmp
from kpfs.engine.arch.x86.trap import GuestHandlers
from kpfs.engine.arch_hooks import Core
from kpfs.engine.kprobe import Kprobe, KprobeFlag, PostHandler, PreHandler
from kpfs.engine.machine import Machine
from kpfs.engine.runtime.records import KpHandler, KpSite
from kpfs.engine.runtime.runtime import Runtime
from kpfs.engine.slots import KprobeInsnCache

_OFF = int(KprobeFlag.DISABLED | KprobeFlag.GONE)


class X86:
    """Implements kpfs.engine.arch_hooks.Arch.  Context: control."""

    name = "x86"
    kretprobe_blacklist: Sequence[str] = ("__switch_to",)
    calls = CallRegisters()

    runtime: Runtime
    path: HitPath
    stubs: Stubs
    opt: OptProbes
    rethooks: Rethooks
    ftrace: FtraceSites
    jprobes: Jprobes
    running: GuestHandlers

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.patcher = self.text_poke = TextPatcher(machine, machine.text_writer)
        self.text = checks.KernelView(machine, self.patcher.original)
        self.insn_slots = KprobeInsnCache(machine, KPROBE_SLOT_SIZE, "kprobe_insn_page")
        self.handlers: dict[KAddr, KpHandler] = {}

    @property
    def text_changes(self) -> int:
        """Number of changes of the text: breakpoints, jumps and calls put in or out."""
        return self.patcher.changes

    def patched_text(self) -> Iterator[int]:
        """Yield the addresses where there is one.  Context: control."""
        return self.patcher.addresses()

    def arch_init_kprobes(self, core: Core) -> None:
        self.core = core
        self.runtime = Runtime(self.machine, self._config_changed)
        self.path = path = HitPath(self.machine, self.runtime)
        self.rethooks = Rethooks(self.runtime, path)
        self.stubs = Stubs(self.machine, self.patcher, self.runtime)
        self.opt = OptProbes(
            core, self.text, self.patcher, self.runtime, self.stubs, path
        )
        self.ftrace = FtraceSites(self.machine, self.patcher, self.runtime, self.stubs)
        core.insn_caches += (
            self.insn_slots,
            *self.stubs.caches,
            self.ftrace.slots,
            self.opt.optinsn_slots,
        )
        self.jprobes = Jprobes(self.runtime, path, self.patcher)
        self.running = path.guest
        symbols = self.runtime.symbols
        self._no_probes = (
            self.text.entry_text,
            self.text.kprobes_text,
        )
        self._python = {
            "pre": symbols["kp_py_handler"],
            "post": symbols["kp_py_post"],
            "break": symbols["kp_py_break"],
        }
        self.machine.traps.on_breakpoint(path.kprobe_int3_handler)
        self.machine.traps.on_entry(path.entered)
        self.machine.traps.on_fault(path.kprobe_fault_handler)
        for reason, handler in (
            (abi.HC_PY_HANDLER, path.py_handler),
            (abi.HC_PY_POST, path.py_post),
            (abi.HC_PY_BREAK, path.py_break),
            (abi.HC_PY_ENTRY, path.py_entry),
            (abi.HC_PY_RETURN, path.py_return),
            (abi.HC_ORPHAN, self.rethooks.orphan),
        ):
            self.machine.traps.on_hypercall(reason, handler)

    # ---- the address
    def arch_within_kprobe_blacklist(self, addr: KAddr) -> bool:
        for first, end in self._no_probes:
            if first <= addr < end:
                return True
        return False

    def arch_adjust_kprobe_addr(self, addr: KAddr, offset: int) -> tuple[KAddr, bool]:
        place, entry = checks.arch_adjust_kprobe_addr(self.text, addr, offset)
        return KAddr(place), entry

    # ---- making ready
    def arch_prepare_kprobe(self, p: Kprobe) -> None:
        """Kernel: arch_prepare_kprobe(), arch_copy_kprobe()"""
        try:
            insn, kind, boostable = checks.prepare_kprobe(self.text, p.addr)
        except MemoryFault as fault:
            raise KernelError(errno.EINVAL, str(fault)) from None
        site = self.runtime.make(KpSite)
        slot = self.insn_slots.get_insn_slot()
        ainsn = Ainsn(site, insn, kind, boostable, slot)
        ainsn.hit = Hit(p.addr, site, slot, insn)
        try:
            self.patcher.fill(slot, self._slot_code(ainsn, False))
        except KernelError:
            self.insn_slots.free_insn_slot(slot, dirty=False)
            self.runtime.free(site)
            raise
        site.probe_addr, site.cont = p.addr, slot
        p.opcode = insn.raw
        p.ainsn = ainsn
        p.site = site.addr

    def _config_changed(self) -> None:
        """Write all copies of the runtime's code anew, as it has changed."""
        self.stubs.lite.read()
        with self.patcher:
            for p in self.core.kprobe_table.values():
                if p.ainsn is not None:
                    self.stubs.write(ainsn_of(p))
                    self.opt.entry_changed(p)

    def _slot_code(self, ainsn: Ainsn, post_handler: bool) -> bytes:
        """Return what a probe's slot is to be, and note what comes of a hit there.

        Context: control.  Kernel: prepare_singlestep()
        """
        insn, slot, hit = ainsn.insn, ainsn.slot, ainsn.hit
        assert insn is not None
        assert slot is not None
        assert hit is not None
        hit.emulated = Emulation.NONE
        hit.has_post = post_handler
        code: bytes | None
        if ainsn.kind is not Emulation.NONE:
            code = None if post_handler else slot_code(insn, ainsn.kind, slot)
            hit.slot_traps = code is None
            if code is None:
                hit.emulated = ainsn.kind
                code = INT3
        else:
            code = checks.relocate(insn, slot)
            hit.slot_traps = post_handler or not ainsn.boostable
            code += INT3 if hit.slot_traps else jmp(slot + len(code), insn.next_addr)
        hit.plain = not post_handler and hit.emulated is Emulation.NONE
        path = self.path
        path.slots[slot] = hit
        for end in (slot + 1, slot + insn.length + 1):
            path.traps.pop(end, None)
        if hit.slot_traps:
            path.traps[slot + len(code)] = hit
        hit.step = hit.slot_traps and hit.cont == slot
        return code

    def arch_remove_kprobe(self, p: Kprobe) -> None:
        """Kernel: arch_remove_kprobe()"""
        ainsn, p.ainsn, p.site = p.ainsn, None, None
        if not isinstance(ainsn, Ainsn) or ainsn.removed:
            return
        ainsn.removed = True  # an aggr_kprobe and its probes share it
        # if p is freed late, a new probe may own the text here by now
        if self.core.kprobe_table.get(p.addr) in (None, p):
            if ainsn.insn is None:
                self.ftrace.forget(p.addr)
            else:
                self.patcher.forget(p.addr)
        hit, path = ainsn.hit, self.path
        if hit is not None and path.hits.get(hit.addr + 1) is hit:
            del path.hits[hit.addr + 1]

        def done() -> None:
            self.runtime.free(ainsn.site)
            self.stubs.free(ainsn)
            if ainsn.slot is not None and ainsn.insn is not None:
                path.slots.pop(ainsn.slot, None)
                for end in (ainsn.slot + 1, ainsn.slot + ainsn.insn.length + 1):
                    path.traps.pop(end, None)
                self.insn_slots.free_insn_slot(ainsn.slot, dirty=False)

        self.runtime.after_quiescence(done)

    # ---- what a hit does
    def sync_site(self, p: Kprobe, changed: Kprobe | None = None) -> None:
        ainsn = p.ainsn
        if not isinstance(ainsn, Ainsn):
            return
        if not ainsn.records and int(p.flags) & _OFF:
            return  # nobody comes here before it is to be armed, and most never are
        if changed is None or not self._sync_one(p, ainsn, changed):
            self._sync_all(p, ainsn)

    def _sync_one(self, p: Kprobe, ainsn: Ainsn, changed: Kprobe) -> bool:
        """Sync one record of many, the quick way; False if that is not enough."""
        records, hit = ainsn.records, ainsn.hit
        come = len(p.list) - len(records)
        if min(len(p.list), len(records)) <= PARTS_MAX:
            return False  # the way into the runtime may be another one
        guest = is_guest(changed)
        in_python = hit is not None and not hit.stub  # calls all that are on
        if in_python and ((guest and not int(changed.flags) & _OFF) or come == 0):
            return False
        if not (ainsn.all_guest and guest) and not self._is_simple(p, hit, changed):
            return False
        if come == 0:
            self._sync_handler(changed)
        elif come == 1 and p.list[0] is changed:
            ainsn.insert(self._sync_handler(changed))
            ainsn.all_guest = ainsn.all_guest and guest
        elif come == -1 and changed.handler in self.handlers:
            ainsn.remove(self.handlers[changed.handler])
        else:
            return False
        pre = changed.pre_handler
        if hit is not None and in_python and callable(pre):
            if come == -1:
                hit.handlers = tuple(h for h in hit.handlers if h[1] is not changed)
            elif not int(changed.flags) & _OFF:
                hit.handlers = ((pre, changed), *hit.handlers)
        return True

    @staticmethod
    def _is_simple(p: Kprobe, hit: Hit | None, changed: Kprobe) -> bool:
        """Return True if ``changed`` concerns nothing but the lists of handlers."""
        others = changed.post_handler, changed.break_handler, changed.fault_handler
        if others != (None, None, None) or p.break_handler is not None:
            return False
        return hit is None or (not hit.stub and not changed.guest_at)

    def _sync_all(self, p: Kprobe, ainsn: Ainsn) -> None:
        probes = p.list if p.is_aggr else [p]
        ainsn.all_guest = all(map(is_guest, probes))
        records = ainsn.records = [self._sync_handler(kp) for kp in probes]
        following = 0
        for record in reversed(records):
            record.next = following
            following = record.addr
        site = ainsn.site
        site.first = following
        hit = ainsn.hit
        if hit is not None:
            self._sync_hit(p, hit, probes, records)
        has_post = any(kp.post_handler is not None for kp in probes)
        site.flags = (
            (abi.SITE_POST if has_post else 0)
            | (abi.SITE_SINGLESTEP if hit is not None and hit.step else 0)
            | (abi.SITE_AGGR if p.is_aggr else 0)
        )
        if self.stubs.set_entry(ainsn, records):
            if ainsn.entry in (StubEntry.KRET, StubEntry.KRETS):
                self.rethooks.set_places(records, site)
            self.opt.entry_changed(p)

    def _sync_hit(
        self, p: Kprobe, hit: Hit, probes: list[Kprobe], records: list[KpHandler]
    ) -> None:
        """Set in hit what Python does at a breakpoint there."""
        ainsn = ainsn_of(p)
        pres: list[tuple[PreHandler, Kprobe]] = []
        posts: list[tuple[PostHandler, Kprobe]] = []
        has_post = live_post = guest = False
        for kp in probes:
            has_post = has_post or kp.post_handler is not None
            if int(kp.flags) & _OFF:
                continue
            pre, post = kp.pre_handler, kp.post_handler
            if callable(pre):
                pres.append((pre, kp))
            if callable(post):
                posts.append((post, kp))
            guest = guest or isinstance(pre, int) or isinstance(post, int)
            live_post = live_post or post is not None
        if has_post != hit.has_post:
            self.patcher.poke(hit.slot, self._slot_code(ainsn, has_post))
        # the runtime counts misses in a module's structure, handlers or not
        guest = guest or any(record.kp for record in records)
        hit.guest_posts = guest and live_post
        if guest and ainsn.stub is None:
            self.stubs.make(ainsn)
        hit.handlers = () if guest else tuple(pres)
        hit.posts = () if guest else tuple(posts)
        hit.records = records
        hit.stub = ainsn.way_in() if guest else 0
        self.stubs.go_on_at(ainsn, self.opt.continuation(p) or hit.slot)
        self.path.hits[hit.addr + 1] = hit

    def _sync_handler(self, kp: Kprobe) -> KpHandler:
        """Bring kp's kp_handler up to date; make it if there is none yet."""
        record = None if kp.handler is None else self.handlers.get(kp.handler)
        if record is None:
            record = self.runtime.make(KpHandler)
            kp.handler = record.addr
            self.handlers[record.addr] = record
            self.path.handlers[record.addr] = kp
            if kp.pre_handler == self.jprobes.pre_handler:
                self.jprobes.count(1)
        record.fn = self._function(kp.pre_handler, "pre")
        if kp.post_handler is not None or record.post_fn:
            record.post_fn = self._function(kp.post_handler, "post")
        if kp.break_handler is not None:
            record.break_fn = self._function(kp.break_handler, "break")
        fault = kp.fault_handler  # one in Python is called by the trap itself
        if fault is not None and not callable(fault):
            record.fault_fn = fault
        record.flags = abi.HANDLER_DISABLED if int(kp.flags) & _OFF else 0
        record.data = kp.data
        record.kp = kp.guest_at
        record.arg = kp.guest_kp or record.addr
        record.user = kp.guest_at or record.addr
        return record

    def _function(self, user: Callable[..., object] | KAddr | None, kind: str) -> int:
        """Return the guest function to be called for a user's handler; 0: none."""
        if user is None:
            return 0
        return self._python[kind] if callable(user) else int(user)

    def release_handler(self, p: Kprobe) -> None:
        if p.handler is None:
            return
        record = self.handlers.pop(p.handler)
        p.handler = None
        if record.fn == self.jprobes.pre_handler:
            self.jprobes.count(-1)

        def done() -> None:
            self.path.handlers.pop(record.addr, None)
            self.runtime.free(record)

        self.runtime.after_quiescence(done)

    def hits(self, p: Kprobe) -> int:
        ainsn = p.ainsn
        if not isinstance(ainsn, Ainsn):
            return 0
        return ainsn.site.hits + (ainsn.hit.count if ainsn.hit else 0)

    def nmissed(self, p: Kprobe) -> int:
        return 0 if p.handler is None else self.handlers[p.handler].nmissed

    def copied_insn(self, p: Kprobe) -> tuple[int, bool, int]:
        """Kernel: prepare_singlestep()"""
        ainsn = p.ainsn
        if not isinstance(ainsn, Ainsn) or ainsn.insn is None or ainsn.slot is None:
            return 0, False, 0
        stepped = ainsn.kind is not Emulation.NONE or p.post_handler is not None
        return ainsn.slot, ainsn.boostable and not stepped, ainsn.insn.length

    def boostable(self, p: Kprobe) -> int | None:
        slot, boosted, _ = self.copied_insn(p)
        if not slot:
            return None
        return int(boosted) if ainsn_of(p).boostable else -1

    # ---- the text
    def arch_arm_kprobe(self, p: Kprobe) -> None:
        """Kernel: arch_arm_kprobe()"""
        if not self.patcher.patched(p.addr):
            self.patcher.patch(p.addr, INT3, p.opcode[:1])
        else:
            self.opt.break_jump(p)

    def arch_disarm_kprobe(self, p: Kprobe) -> None:
        """Kernel: arch_disarm_kprobe()"""
        self.patcher.unpatch(p.addr)

    def original_text(self, addr: int, size: int) -> bytes:
        return self.patcher.original(addr, size)

    def text_listing(self, start: KAddr, end: KAddr) -> str:
        table, symbols = self.core.kprobe_table, self.runtime.symbols
        return text_listing(self.machine, table, symbols, start, end)
