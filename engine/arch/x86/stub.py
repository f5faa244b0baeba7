# SPDX-License-Identifier: GPL-2.0-or-later
"""The code by which a site with guest handlers enters the runtime.

A stub is as engine/runtime/entry.S says.  Where a site's only handler is an event's or
a return probe's, it is a copy of a template of lite.S.  Where there is a jprobe with no
others but return probes, it leads to jprobe.S; where return probes stand beside other
handlers, it leads to a block, which is made of the pieces of krets.S.
"""

from __future__ import annotations

from collections.abc import Sequence

from kpfs.base.abi import SITE_SINGLESTEP
from kpfs.base.ktypes import KAddr
from kpfs.engine.arch.x86.ainsn import Ainsn, StubEntry
from kpfs.engine.arch.x86.lite import LiteCode, Operands
from kpfs.engine.arch.x86.regs import KERNEL_DS
from kpfs.engine.arch.x86.text_patching import TextPatcher, jmp, push_imm32
from kpfs.engine.machine import Machine
from kpfs.engine.runtime.records import KpHandler
from kpfs.engine.runtime.runtime import Runtime
from kpfs.engine.slots import KprobeInsnCache

STUB_SIZE = 16  # bytes of the stub in entry.S, at most
NO_RESCHED_WORD = 0xFFFF_FFFF
PARTS_MAX = 4  # handlers of a block


class Stubs:
    """Makes, writes and frees stubs and blocks.  Context: control."""

    def __init__(
        self, machine: Machine, patcher: TextPatcher, runtime: Runtime
    ) -> None:
        symbols = self._symbols = runtime.symbols
        self._patcher = patcher
        self.lite = LiteCode(machine, symbols)
        self.size = max(STUB_SIZE, self.lite.max_size)
        self.slots = KprobeInsnCache(machine, self.size + 15 & ~15, "kprobe_stub_page")
        size = self.lite.block_size(PARTS_MAX) + 15 & ~15
        self._blocks = KprobeInsnCache(machine, size, "kprobe_stub_page", has_regs=True)
        # a stack trace ends in them as in detour buffers
        self._opt_blocks = KprobeInsnCache(machine, size, "kprobe_optinsn_page")
        self.caches = self.slots, self._blocks, self._opt_blocks
        # fn of a handler -> the code for it alone
        self._short_ways: dict[int, StubEntry] = {
            symbols["kp_event_handler"]: StubEntry.EVENT,
            symbols["kp_kret_entry"]: StubEntry.KRET,
            symbols["kp_setjmp_pre"]: StubEntry.JPROBE,
        }
        self._kret, self._jprobe = symbols["kp_kret_entry"], symbols["kp_setjmp_pre"]
        # an event's shows in stack traces how it was called
        self._others = {0, self._jprobe, symbols["kp_event_handler"]}
        if machine.runtime_image.config.gs_resched == NO_RESCHED_WORD:
            self._short_ways = {}

    def make(self, ainsn: Ainsn) -> None:
        """Take room for a stub, which set_entry() writes before the first hit."""
        ainsn.stub = self.slots.get_insn_slot()

    def write(self, ainsn: Ainsn) -> None:
        """Write the stub anew, if one is in use."""
        stub, hit = ainsn.stub, ainsn.hit
        if stub is None or ainsn.entry is None or ainsn.entry is StubEntry.PYTHON:
            return
        if hit is None:
            code = self.code(ainsn, stub, "ftrace", ainsn.site.cont)
        else:
            stepped = hit.step and ainsn.entry is not StubEntry.RUNTIME
            self._free_block(ainsn, "int3" if stepped else "step", dirty=True)
            code = self.code(ainsn, stub, "step" if stepped else "int3", hit.cont)
            hit.stub = ainsn.way_in() if hit.stub else 0
        self._patcher.poke(stub, code)

    def go_on_at(self, ainsn: Ainsn, cont: KAddr) -> None:
        """Have a breakpoint go on there: at its slot, or without a trap elsewhere."""
        hit, site = ainsn.hit, ainsn.site
        assert hit is not None
        if hit.cont == cont:
            return
        hit.cont = site.cont = cont
        hit.step = hit.slot_traps and cont == hit.slot
        site.flags = site.flags & ~SITE_SINGLESTEP | SITE_SINGLESTEP * hit.step
        self.write(ainsn)

    def free(self, ainsn: Ainsn) -> None:
        """Give back what make() and write() took, where no CPU is any more."""
        self._free_blocks(ainsn, dirty=False)
        if ainsn.stub is not None:
            self.slots.free_insn_slot(ainsn.stub, dirty=False)

    def _free_blocks(self, ainsn: Ainsn, dirty: bool) -> None:
        for kind in [*ainsn.blocks]:
            self._free_block(ainsn, kind, dirty)

    def _cache(self, kind: str) -> KprobeInsnCache:
        return self._opt_blocks if kind == "opt" else self._blocks

    def _free_block(self, ainsn: Ainsn, kind: str, dirty: bool) -> None:
        block = ainsn.blocks.pop(kind, None)
        if block is not None:
            self._cache(kind).free_insn_slot(KAddr(block.start), dirty)

    def _make_block(self, ainsn: Ainsn, kind: str, cont: int) -> KAddr:
        """Make a new block; the old one stays, as a handler may yet return to it."""
        self._free_block(ainsn, kind, dirty=True)
        block = self._cache(kind).get_insn_slot()
        copy, name = self.lite.copy, kind + StubEntry.KRETS.value
        where = Operands(ainsn.site.addr, ainsn.site.probe_addr, cont)
        code = copy(name, block, where)
        for record in ainsn.parts:
            piece = "_kret" if record.fn == self._kret else "_pre"
            what = where._replace(data=record.data, handler=record.addr)
            code += copy(name + piece, block + len(code), what)
        code += copy(name + "_leave", block + len(code), where)
        self._patcher.poke(block, code)
        ainsn.blocks[kind] = range(block, block + len(code))
        return block

    def code(self, ainsn: Ainsn, at: int, kind: str, cont: int) -> bytes:
        """Return a stub's bytes at ``at`` for that way in; makes a block if need be."""
        site, entry = ainsn.site, ainsn.entry
        assert entry is not None
        if entry is StubEntry.KRETS:
            return jmp(at, self._make_block(ainsn, kind, cont))
        if entry not in (StubEntry.RUNTIME, StubEntry.JPROBE):
            where = Operands(site.addr, site.probe_addr, cont, ainsn.data)
            return self.lite.copy(kind + entry.value, at, where)
        code = push_imm32(site.addr)
        if kind != "ftrace":
            code = bytes((0x6A, KERNEL_DS)) + code  # push $KERNEL_DS
        name = {"step": "int3"}.get(kind, kind)
        if kind != "opt" or entry is not StubEntry.JPROBE:
            name += entry.value
        return code + jmp(at + len(code), self._symbols[f"kp_entry_{name}"])

    def _are_krets(self, records: Sequence[KpHandler]) -> bool:
        """Return True if all but the last are return probes, and none is disabled."""
        return all(r.fn == self._kret for r in records[:-1]) and not any(
            r.flags or r.post_fn for r in records
        )

    def _have_krets(self, records: Sequence[KpHandler]) -> bool:
        """Return True for return probes beside nothing but users' pre_handlers."""
        functions = {r.fn for r in records}
        others = functions & self._others or any(r.post_fn for r in records)
        few = len(records) <= PARTS_MAX
        return self._kret in functions and few and not others

    def set_entry(self, ainsn: Ainsn, records: Sequence[KpHandler]) -> bool:
        """Choose the code that fits the handlers; return whether it has changed."""
        entry, data = StubEntry.RUNTIME, 0
        parts: tuple[KpHandler, ...] = ()
        if ainsn.hit is not None and not ainsn.hit.stub:
            entry = StubEntry.PYTHON
        elif len(records) == 1:
            (record,) = records
            if not record.flags and not record.post_fn:
                entry = self._short_ways.get(record.fn, entry)
                data = record.data if entry is not StubEntry.RUNTIME else 0
        elif records and records[-1].fn == self._jprobe and self._are_krets(records):
            entry = self._short_ways.get(self._jprobe, entry)
        elif self._have_krets(records):
            entry, parts = StubEntry.KRETS, tuple(records)
        if (entry, data, parts) == (ainsn.entry, ainsn.data, ainsn.parts):
            return False
        ainsn.entry, ainsn.data, ainsn.parts = entry, data, parts
        self._free_blocks(ainsn, dirty=True)
        self.write(ainsn)
        return True
