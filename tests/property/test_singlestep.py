# SPDX-License-Identifier: GPL-2.0-or-later
"""A probed instruction does what it does unprobed: at every boundary of every function.

Each instruction runs once alone and then with a probe on it, from the same random
registers, stack and memory.  Registers, flags, memory, the fault if there is one, and
where execution goes on must be equal.

By default a tenth of the functions.  KPFS_SLOW=1: all, every kind of handler at every
boundary, and four times as many cases.
"""

from __future__ import annotations

import os
import random
import struct
from collections import Counter
from typing import NamedTuple

import pytest

from kpfs.base.errors import KernelError
from kpfs.base.ktypes import KAddr
from kpfs.engine.arch.x86.checks import probe as checks
from kpfs.engine.arch.x86.core import X86
from kpfs.engine.arch.x86.insn import Insn
from kpfs.engine.arch.x86.regs import CX, FLAGS, IP, NAMES, ORIG_AX, SP
from kpfs.engine.kprobe import Kprobe
from kpfs.engine.register import register_kprobe, unregister_kprobes
from kpfs.engine.runtime.records import KpEvent
from kpfs.engine.state import State
from kpfs.engine.trace.ring.ring_buffer import RingBuffer
from kpfs.guest.machine import Guest
from tests.guest import run_to, set_gs_base

pytestmark = pytest.mark.guest

SLOW = bool(os.environ.get("KPFS_SLOW"))
SCRATCH = 0x800  # where the registers point to; in the middle, reach on both sides
STACK = 0x1000
RANDOM_FLAGS = 0x8D5 | 0x200  # CF PF AF ZF SF OF, and IF
# hypercalls, hlt; then system instructions and rdtsc, cpuid
SKIP_ONE = frozenset((0xE4, 0xE5, 0xE6, 0xE7, 0xEC, 0xED, 0xEE, 0xEF, 0xF4))
SKIP_TWO = frozenset((0x01, 0x20, 0x22, 0x30, 0x31, 0x32, 0x05, 0x07, 0x34, 0x35, 0xA2))
MAX_STEPS = 64  # steps of an instruction with a rep prefix
KINDS = ("python", "post", "guest")
WORDS = struct.Struct("<21Q")


class End(NamedTuple):
    """The state after a step, which is compared."""

    regs: tuple[int, ...]
    fault: tuple[int, int] | None  # vector, CR2; the address is regs[IP]
    scratch: bytes  # and the per-CPU area
    stack: bytes  # from the stack pointer on
    changed: tuple[tuple[int, bytes], ...]  # bytes of the kernel's own data


class Case(NamedTuple):
    """An instruction with the state before it, and the state after it without
    a probe.
    """

    insn: Insn
    regs: list[int]
    data: bool  # it may write the kernel's own data
    alone: End


class Bench:
    """The guest, taken apart: one instruction at a time."""

    def __init__(self) -> None:
        self.guest = guest = Guest(1, quiet=True)
        self.cpu = guest.cpus
        self.arch = X86(guest)
        self.state = State(guest, self.arch, optprobes=False)
        self.path = self.arch.path
        self.runtime = self.arch.runtime
        RingBuffer(self.runtime)
        self.event = self.runtime.make(KpEvent)
        self.event.flags, self.event.size = 1, 16
        self.scratch = guest.area.alloc_data(SCRATCH)
        self.stack = guest.area.alloc_data(STACK)
        self.percpu = guest.area.alloc_data(guest.info.percpu_size)
        self.scratch_view = guest.view(self.scratch, SCRATCH)
        self.stack_view = guest.view(self.stack, STACK)
        self.percpu_view = guest.view(self.percpu, 0x1000)
        self.old_percpu = guest.read(guest.info.percpu_base, 0x1000)
        start = (guest.kallsyms.lookup_name("_etext")[0].addr + 0xFFF) & ~0xFFF
        self.data = guest.view(start, guest.memory._image_end - start)
        self.old_data = bytes(self.data)
        self.random_data = random.Random(1).randbytes(SCRATCH)
        # where ret goes; popf gets it too, and must not set TF
        self.target = next(
            s.addr for s in guest.kallsyms if s.type == "T" and not s.addr & 0x100
        )
        self.stack_data = struct.pack("<Q", self.target) * (STACK // 8)
        self.fault: tuple[int, int] | None = None
        self.hits: list[tuple[int, int]] = []
        set_gs_base(self.cpu, self.percpu)
        self.cpu.trap = self.trap

    def trap(self, vector: int) -> None:
        """Note the fault as the engine attributes it, and stop."""
        self.cpu.clear_exception(vector)
        cr2 = self.cpu.fault_address() if vector == 14 else 0
        to = self.path.kprobe_fault_handler(vector, self.cpu.read_reg(IP), cr2)
        assert to is None
        self.fault = vector, cr2
        self.cpu.stop()

    def load(self, regs: list[int]) -> None:
        self.scratch_view[:] = self.random_data
        self.stack_view[:] = self.stack_data
        self.percpu_view[:] = self.old_percpu
        self.fault = None
        self.cpu.write_regs(regs)

    def end(self, data: bool) -> End:
        regs = list(self.cpu.read_regs())
        regs[ORIG_AX] = 0
        changed: tuple[tuple[int, bytes], ...] = ()
        now = bytes(self.data) if data else self.old_data
        if now != self.old_data:
            changed = tuple(
                (at, now[at : at + 64])
                for at in range(0, len(now), 64)
                if now[at : at + 64] != self.old_data[at : at + 64]
            )
            self.data[:] = self.old_data
        scratch = bytes(self.scratch_view) + bytes(self.percpu_view)
        stack = bytes(self.stack_view[max(regs[SP] - self.stack, 0) :])
        return End(tuple(regs), self.fault, scratch, stack, changed)

    def run_alone(self, regs: list[int], data: bool) -> End:
        self.load(regs)
        for _ in range(MAX_STEPS):
            self.cpu.run(1)
            if self.fault or self.cpu.read_reg(IP) != regs[IP]:
                break
        return self.end(data)

    def run_probed(self, case: Case) -> End:
        self.load(case.regs)
        to = case.alone.regs[IP]
        if case.alone.fault:
            self.cpu.run()  # the fault ends it
            return self.end(case.data)
        run_to(self.cpu, to)
        end = self.end(case.data)
        if end.fault == (14, to) and end.regs[IP] == to:
            # it went to where nothing can be executed, and got there
            return end._replace(fault=None)
        return end

    # ---- cases
    def random_regs(self, rng: random.Random, insn: Insn) -> list[int]:
        """Pointers into the scratch memory, small numbers, anything."""
        regs = list(WORDS.unpack(rng.randbytes(WORDS.size)))
        for i, value in enumerate(regs):
            if value & 3:
                regs[i] = self.scratch + SCRATCH // 2 - 256 + (value >> 8 & 0x1F8)
            elif value & 4:
                regs[i] = value >> 8 & 63
        if insn.prefixes[:1] in (b"\xf2", b"\xf3"):
            regs[CX] = regs[CX] >> 3 & 3
        elif regs[CX] & 8:
            regs[CX] = regs[CX] >> 4 & 1
        regs[FLAGS] = regs[FLAGS] & RANDOM_FLAGS | 2
        regs[SP] = self.stack + STACK // 2 + 64
        regs[IP] = insn.addr
        return regs

    def cases(self, function: checks.DecodedFunction):
        for insn in function.insns:
            if to_be_skipped(insn):
                continue
            rng = random.Random(insn.addr)
            data = insn.disp_size == 4 or insn.opcode[0] in range(0xA0, 0xA4)
            for _ in range(4 if SLOW else 1):
                regs = self.random_regs(rng, insn)
                alone = self.run_alone(regs, data)
                if alone.regs[IP] != insn.addr or alone.fault:
                    yield Case(insn, regs, data, alone)

    def functions(self):
        seen = set()
        for sym in self.guest.kallsyms:
            if sym.type in "tTwW" and sym.size <= 0x2000 and sym.addr not in seen:
                seen.add(sym.addr)
                if not SLOW and len(seen) % 10:
                    continue
                function = self.arch.text.function(sym.addr)
                if function is not None:
                    yield sym.name, function

    # ---- probes
    def probe(self, addr: KAddr, kind: str) -> Kprobe | None:
        p = Kprobe(addr=addr)
        if kind == "python":
            p.pre_handler = lambda p, regs: self.hits.append((regs.ip, regs.sp))
        elif kind == "post":
            p.post_handler = lambda p, regs, flags: self.hits.append((p.addr, 0))
        else:
            p.pre_handler = self.runtime.symbols["kp_event_handler"]
            p.data = self.event.addr
        try:
            register_kprobe(self.state, p)
        except KernelError:
            return None
        return p

    def check(self, case: Case, kind: str, where: str) -> None:
        self.hits.clear()
        before = self.event.nhit
        alone, probed = case.alone, self.run_probed(case)
        assert described(probed) == described(alone), where
        assert probed.scratch == alone.scratch, where
        # below the stack pointer a guest handler leaves its frame: "sub $8, %rsp"
        # brings that to light
        below = max(case.regs[SP] - alone.regs[SP], 0)
        if alone.stack[:below] != self.stack_data[:below] or kind != "guest":
            below = 0
        assert probed.stack[below:] == alone.stack[below:], where
        assert probed.changed == alone.changed, where
        if kind == "guest":
            assert self.event.nhit == before + 1, where
        elif kind == "python":
            assert self.hits == [(case.insn.addr + 1, case.regs[SP])], where
        else:
            # one that faults is not done, but a jump to a bad address is
            done = not alone.fault or alone.regs[IP] != case.insn.addr
            assert len(self.hits) == done, where
        cpu = self.runtime.cpus[0]
        assert (cpu.current_kprobe, cpu.status) == (0, 0), where


def to_be_skipped(insn: Insn) -> bool:
    if insn.opcode[0] == 0x0F:
        return insn.opcode[1] in SKIP_TWO
    string_io = insn.opcode[0] in range(0x6C, 0x70)
    return insn.opcode[0] in SKIP_ONE or string_io


def described(end: End) -> dict[str, str]:
    words = {n: f"{v:#x}" for n, v in zip(NAMES, end.regs, strict=True)}
    return {**words, "fault": str(end.fault)}


def kinds_for(number: int) -> tuple[str, ...]:
    return KINDS if SLOW else (KINDS[number % len(KINDS)],)


@pytest.mark.long
def test_probed_is_as_unprobed():
    bench = Bench()
    done: Counter[str] = Counter()
    faults = 0
    try:
        for number, (name, function) in enumerate(bench.functions()):
            cases = list(bench.cases(function))
            for kind in kinds_for(number):
                addrs = {case.insn.addr for case in cases}
                probes = {addr: bench.probe(addr, kind) for addr in addrs}
                for case in cases:
                    far_return = case.insn.opcode[0] in (0xCA, 0xCB)
                    if probes[case.insn.addr] is None or (
                        far_return and kind == "post"
                    ):
                        continue  # emulate() does not check the code segment
                    at = case.insn.addr - function.start
                    where = f"{name}+{at:#x} {case.insn.raw.hex(' ')} ({kind})"
                    bench.check(case, kind, where)
                    done[kind] += 1
                    faults += case.alone.fault is not None
                unregister_kprobes(bench.state, [p for p in probes.values() if p])
    finally:
        bench.guest.close()
    assert min(done[kind] for kind in KINDS) > 1000, done
    assert faults < done.total() / 2, (done, faults)
    print(done, faults)
