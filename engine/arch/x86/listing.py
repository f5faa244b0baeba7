# SPDX-License-Identifier: GPL-2.0-or-later
"""Lists text as it is now, with the patches in it and where they lead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kpfs.base.errors import MemoryFault
from kpfs.base.ktypes import KAddr
from kpfs.engine.arch.x86.ainsn import ainsn_of
from kpfs.engine.arch.x86.insn import (
    INT3_INSN_OPCODE,
    MAX_INSN_SIZE,
    Disassembler,
    Line,
    decode,
    disassemble,
)
from kpfs.engine.arch.x86.opt import optinsn_of
from kpfs.engine.kprobe import Kprobe, OptimizedKprobe
from kpfs.engine.machine import Machine

JMP32_OPCODE = 0xE9
CALL_OPCODE = 0xE8
PAGE_MASK = 0xFFF


class Listing:
    """Makes the lines of one listing.  Context: control."""

    def __init__(
        self,
        machine: Machine,
        table: Mapping[KAddr, Kprobe],
        symbols: Mapping[str, KAddr],
    ) -> None:
        """symbols: those of the runtime image, which kallsyms does not have."""
        self.machine = machine
        self.table = table
        self.names = {addr: name for name, addr in symbols.items()}
        self.dis = Disassembler()
        self.extra: list[tuple[str, int]] = []  # (title, start)
        self.ends: dict[int, int] = {}  # start -> end, of code with jumps in it
        # detour buffer -> (bytes of its stub, where the displaced instructions are)
        self.stubs: dict[int, tuple[int, int]] = {}

    def name(self, addr: int) -> str:
        """Return addr as symbol+offset.  Kernel: sprint_symbol(), without the size."""
        sym = self.machine.kallsyms.symbol_at(addr)
        if sym is None:
            return self.names.get(KAddr(addr), f"{addr:#x}")
        offset = addr - sym.addr
        return f"{sym.name}+{offset:#x}" if offset else sym.name

    def plain(self, start: int, end: int) -> Iterator[str]:
        # no bytes are asked for: in front of them there may be no memory
        code = self.machine.read(start, end - start) if start < end else b""
        for found in disassemble(code, start, self.dis, self.name):
            yield found.shown()

    def function(self, start: int, end: int) -> Iterator[str]:
        """[start, end), with a line for each patch; fills self.extra."""
        addr = plain = start
        while addr < end:
            p = self.table.get(KAddr(addr))
            raw = self.machine.read(addr, 1)[0]
            if p is None or p.ainsn is None or raw not in (
                INT3_INSN_OPCODE, JMP32_OPCODE, CALL_OPCODE,
            ) or raw == p.opcode[0]:  # fmt: skip
                addr += len(self.dis.line(self.code(addr, end), addr).raw)
                continue
            yield from self.plain(plain, addr)
            size, line = self.patch(p, addr, raw)
            yield line
            addr = plain = addr + size
        yield from self.plain(plain, end)

    def code(self, addr: int, end: int) -> bytes:
        try:
            return self.machine.read(addr, MAX_INSN_SIZE)
        except MemoryFault:
            return self.machine.read(addr, end - addr)

    def patch(self, p: Kprobe, addr: int, opcode: int) -> tuple[int, str]:
        """Return how many bytes the patch stands for, and its line."""
        was, size = p.opcode, len(p.opcode)
        ainsn, optinsn = ainsn_of(p), None
        if opcode == JMP32_OPCODE and isinstance(p, OptimizedKprobe) and p.optinsn:
            optinsn = optinsn_of(p)
            was, size = optinsn.code, optinsn.size
        words = "; ".join(found.text for found in disassemble(was, addr, self.dis))
        patch = decode(self.machine.read(addr, max(size, 5)), addr)
        assert patch is not None
        raw = self.machine.read(addr, size)
        text = self.dis.text(patch.raw, addr) or ""
        title = self.name(addr)
        if opcode == INT3_INSN_OPCODE:
            note = f"breakpoint, was: {words}"
            self.extra.append((f"slot of {title}", ainsn.slot or 0))
        elif optinsn is not None:
            note = f"jump, was: {words}"
            self.extra.append((f"detour buffer of {title}", optinsn.buffer))
            self.stubs[optinsn.buffer] = optinsn.stub, optinsn.displaced
            self.block(title, ainsn.blocks.get("opt"))
        else:
            note = f"ftrace call, was: {words}"
            self.extra.append((f"stub of {title}", ainsn.stub or 0))
            self.block(title, ainsn.blocks.get("ftrace"))
        return size, Line(addr, raw, text).shown(note)

    def block(self, title: str, block: range | None) -> None:
        """List the block that the stub jumps to, if there is one (see stub.py)."""
        if block is not None:
            self.extra.append((f"handlers of {title}", block.start))
            self.ends[block.start] = block.stop

    def out_of_line(self, start: int) -> Iterator[str]:
        """Code up to the jump or breakpoint that ends it; of a detour buffer, all."""
        if start in self.ends:
            yield from self.plain(start, self.ends[start])
            return
        if start in self.stubs:
            size, displaced = self.stubs[start]
            yield from self.plain(start, start + size)
            start = displaced
        addr = start
        while True:
            insn = decode(self.code(addr, (addr | PAGE_MASK) + 1), addr)
            if insn is None:
                break
            addr = insn.next_addr
            if insn.opcode[0] in (INT3_INSN_OPCODE, JMP32_OPCODE, 0xC3, 0xC2):
                break
        yield from self.plain(start, addr)


def text_listing(
    machine: Machine,
    table: Mapping[KAddr, Kprobe],
    symbols: Mapping[str, KAddr],
    start: KAddr,
    end: KAddr,
) -> str:
    """Disassemble [start, end) and its code out of line, live.  Context: control."""
    listing = Listing(machine, table, symbols)
    lines = [f"{listing.name(start)}:", *listing.function(start, end)]
    for title, addr in listing.extra:
        lines += ["", f"{title}:", *listing.out_of_line(addr)]
    return "\n".join(lines) + "\n"
