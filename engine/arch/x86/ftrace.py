# SPDX-License-Identifier: GPL-2.0-or-later
"""Turns functions' entry nops into calls of a probe's stub, the tracer or both."""

from __future__ import annotations

from collections.abc import Collection

from kpfs.base.ktypes import KAddr
from kpfs.base.x86 import NOP5
from kpfs.engine.arch.x86.ainsn import Ainsn, ainsn_of
from kpfs.engine.arch.x86.stub import Stubs
from kpfs.engine.arch.x86.text_patching import TextPatcher, call, jmp
from kpfs.engine.kprobe import Kprobe
from kpfs.engine.machine import Machine
from kpfs.engine.runtime.records import KpSite
from kpfs.engine.runtime.runtime import Runtime
from kpfs.engine.slots import KprobeInsnCache

BOTH_SIZE = 16


class FtraceSites:
    """The patches of each entry nop: implements kpfs.engine.arch_hooks.Ftrace.

    Context: control.  Kernel: struct dyn_ftrace, ftrace_replace_code()
    """

    def __init__(
        self, machine: Machine, patcher: TextPatcher, runtime: Runtime, stubs: Stubs
    ) -> None:
        self._patcher = patcher
        self._runtime = runtime
        self._make_stub = stubs.make
        self.slots = KprobeInsnCache(machine, BOTH_SIZE, "ftrace_page")
        self._enabled = True
        self._stubs: dict[KAddr, KAddr] = {}  # stubs of armed probes
        self._traced: set[KAddr] = set()
        self._both: dict[KAddr, KAddr] = {}  # code that calls the tracer, then the stub

    def prepare(self, p: Kprobe) -> None:
        """Kernel: arch_prepare_kprobe_ftrace()"""
        site = self._runtime.make(KpSite)
        site.probe_addr = p.addr
        site.cont = p.addr + len(NOP5)
        ainsn = Ainsn(site)
        self._make_stub(ainsn)
        p.opcode = NOP5
        p.ainsn = ainsn
        p.site = site.addr

    def arm(self, p: Kprobe) -> None:
        """Make the function call a probe's stub."""
        stub = ainsn_of(p).stub
        assert stub is not None
        if self._stubs.get(p.addr) != stub:
            self._stubs[p.addr] = stub
            self._write(p.addr)

    def disarm(self, p: Kprobe) -> None:
        if self._stubs.pop(p.addr, None) is not None:
            self._write(p.addr)

    def forget(self, addr: KAddr) -> None:
        """Forget a probe that is removed; if it is still armed, its text is gone."""
        if self._stubs.pop(addr, None) is not None:
            self._traced.discard(addr)
        if addr not in self._traced:
            self._free_both(addr)
            self._patcher.forget(addr)

    def trace(self, add: Collection[KAddr], remove: Collection[KAddr]) -> None:
        """Switch calls of the tracer on or off.  Kernel: ftrace_modify_all_code()"""
        self._traced.update(add)
        self._traced.difference_update(remove)
        self._write_all((*add, *remove))

    def enable(self, on: bool) -> None:
        """Make all sites call their targets or, if on is False, nothing.

        Kernel: ftrace_startup_sysctl(), ftrace_shutdown_sysctl()
        """
        self._enabled = on
        self._write_all(self._traced | set(self._stubs))

    def gone(self, addrs: Collection[KAddr]) -> None:
        """Forget traced functions whose text is gone."""
        for addr in addrs:
            self._traced.discard(addr)
            if addr not in self._stubs:
                self._free_both(addr)
                self._patcher.forget(addr)

    def _write_all(self, addrs: Collection[KAddr]) -> None:
        with self._patcher:
            for addr in addrs:
                self._write(addr)

    def _write(self, addr: KAddr) -> None:
        """Patch one site.  Kernel: ftrace_make_call(), ftrace_make_nop()"""
        stub, traced = self._stubs.get(addr), addr in self._traced
        self._free_both(addr)
        if not self._enabled or (stub is None and not traced):
            self._patcher.unpatch(addr)
            return
        target = stub
        if stub is None:
            target = self._runtime.symbols["kp_ftrace_caller"]
        elif traced:
            target = self._make_both(addr, stub)
        assert target is not None
        self._patcher.patch(addr, call(addr, target), NOP5)

    def _make_both(self, addr: KAddr, stub: KAddr) -> KAddr:
        slot = self._both[addr] = self.slots.get_insn_slot()
        code = call(slot, self._runtime.symbols["kp_ftrace_both"])
        self._patcher.poke(slot, code + jmp(slot + len(code), stub))
        return slot

    def _free_both(self, addr: KAddr) -> None:
        slot = self._both.pop(addr, None)
        if slot is not None:
            self._runtime.after_quiescence(
                lambda: self.slots.free_insn_slot(slot, dirty=False)
            )
