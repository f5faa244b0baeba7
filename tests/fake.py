# SPDX-License-Identifier: GPL-2.0-or-later
"""A machine without a guest, and an architecture that only keeps books.

The fake instruction set has one-byte instructions: NOP, PUSH (a jump may cover it), BAD
(no instruction begins there), TRAP (cannot be probed).
"""

from __future__ import annotations

import errno
import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kpfs.base.errors import KernelError, MemoryFault
from kpfs.base.ktypes import BlacklistEntry, KAddr, KTime, StaticEvent, Symbol, TaskInfo
from kpfs.engine.arch_hooks import Calls, ControlBlock, Core
from kpfs.engine.kprobe import (
    ArchInsn,
    ArchOptInsn,
    Kprobe,
    OptimizedKprobe,
    PtRegs,
    kprobe_disabled,
    kprobe_disarmed,
    kprobe_optimized,
)
from kpfs.engine.machine import (
    BreakpointHandler,
    EntryHandler,
    FaultHandler,
    HypercallHandler,
    Kallsyms,
    Memory,
    RuntimeConfig,
)
from kpfs.engine.rethook import Kretprobe
from kpfs.engine.slots import KprobeInsnCache
from kpfs.engine.state import State

TEXT_BASE = 0xFFFFFFFF81000000
MODULE_BASE = 0xFFFFFFFFC0000000
ENGINE_BASE = 0xFFFFFFFFC1000000
DATA_BASE = 0xFFFFFFFFC8000000
PAGE = 4096

NOP = b"\x90"
PUSH = b"\x50"
BAD = b"\x06"
TRAP = b"\xcc"
ENTRY_NOP = b"\x0f\x1f\x44\x00\x00"


class FakeKallsyms(Kallsyms):
    """Symbols in the order in which they were added."""

    def __init__(self) -> None:
        self.all: list[Symbol] = []
        self.at: dict[int, Symbol] = {}
        self._by_name: dict[str, list[Symbol]] = {}

    def add(self, symbol: Symbol) -> None:
        self.generation += 1
        self.all.append(symbol)
        self._by_name.setdefault(symbol.name, []).append(symbol)
        for addr in range(symbol.addr, symbol.addr + symbol.size):
            self.at.setdefault(addr, symbol)

    def remove(self, addr: int, size: int) -> None:
        self.generation += 1
        self.all = [s for s in self.all if s.addr != addr]
        for symbols in self._by_name.values():
            symbols[:] = [s for s in symbols if s.addr != addr]
        for a in range(addr, addr + size):
            self.at.pop(a, None)

    def __iter__(self) -> Iterator[Symbol]:
        return iter(self.all)

    def lookup_name(self, name: str) -> Sequence[Symbol]:
        module, colon, rest = name.partition(":")
        if colon:
            return [s for s in self._by_name.get(rest, ()) if s.module == module]
        return self._by_name.get(name, [])

    def symbol_at(self, addr: int) -> Symbol | None:
        return self.at.get(addr)


class FakeText:
    """Text is what a symbol of type T covers; a test fills the tables."""

    def __init__(self, kallsyms: FakeKallsyms) -> None:
        self._at = kallsyms.at
        self.blacklisted: list[BlacklistEntry] = []
        self.ftrace_sites: set[int] = set()
        self.reserved: list[tuple[int, int]] = []  # [start, end)
        self.exceptions: set[int] = set()
        self.bugs: set[int] = set()
        self.init_text: list[tuple[int, int]] = []

    def is_text(self, addr: int) -> bool:
        symbol = self._at.get(addr)
        return symbol is not None and symbol.type in "tT"

    def in_init_text(self, addr: int) -> bool:
        return any(start <= addr < end for start, end in self.init_text)

    def module_of(self, addr: int) -> str:
        symbol = self._at.get(addr)
        return symbol.module if symbol is not None else ""

    def blacklist(self) -> Sequence[BlacklistEntry]:
        return self.blacklisted

    def ftrace_location(self, start: int, end: int) -> KAddr | None:
        for addr in range(start, end + 1):
            if addr in self.ftrace_sites:
                return KAddr(addr)
        return None

    def ftrace_locations(self) -> Sequence[KAddr]:
        return [KAddr(addr) for addr in sorted(self.ftrace_sites)]

    def text_reserved(self, start: int, end: int) -> bool:
        return any(s <= end and start < e for s, e in self.reserved)

    def has_exception_entry(self, start: int, end: int) -> bool:
        return any(start <= a < end for a in self.exceptions)

    def is_bug_site(self, addr: int) -> bool:
        return addr in self.bugs


class FakeModules:
    """Counts uses."""

    def __init__(self) -> None:
        self.uses: Counter[int] = Counter()
        self.going: set[int] = set()

    def try_module_get(self, module: int) -> bool:
        if module in self.going:
            return False
        self.uses[module] += 1
        return True

    def module_put(self, module: int) -> None:
        self.uses[module] -= 1


class FakeTraceEvents:
    """A test says which there are."""

    def __init__(self) -> None:
        self.there: list[StaticEvent] = []
        self.enabled: dict[tuple[str, str], int] = {}
        self.follower = 0

    def all(self) -> Sequence[StaticEvent]:
        return self.there

    def of_module(self, name: str) -> Sequence[StaticEvent]:
        return [event for event in self.there if event.module == name]

    def forget(self, group: str, name: str) -> None:
        del self.enabled[group, name]

    def enable(self, group: str, name: str, event: int, commit: int) -> None:
        self.enabled[group, name] = event

    def follow_fork(self, func: int) -> None:
        self.follower = func


class FakeArea:
    """An area whose addresses are never used again."""

    def __init__(self, machine: FakeMachine) -> None:
        self._map = machine.map
        self._text = ENGINE_BASE
        self._data = DATA_BASE

    def alloc_text(self, size: int, *, has_regs: bool = False) -> KAddr:
        addr = self._text
        self._text += -(-size // PAGE) * PAGE
        self._map(addr, bytes(self._text - addr))
        return KAddr(addr)

    def alloc_data(self, size: int) -> KAddr:
        addr = self._data
        self._data += -(-size // PAGE) * PAGE
        self._map(addr, bytes(self._data - addr))
        return KAddr(addr)

    def alloc_ring(self, size: int, *, near: bool) -> tuple[KAddr, bool]:
        return self.alloc_data(size), near

    def free_ring(self, addr: int) -> None:
        pass


class FakeRuntimeImage:
    """One without anything in it."""

    config = RuntimeConfig(*[0] * len(RuntimeConfig._fields))

    def __init__(self) -> None:
        self.there: dict[str, KAddr] = {}

    def symbols(self) -> dict[str, KAddr]:
        return self.there


class FakeTextWriter:
    """Counts."""

    def __init__(self, machine: FakeMachine) -> None:
        self._write = machine.write
        self.pokes = 0
        self.dropped = 0

    def poke_text(self, addr: int, data: bytes) -> None:
        self._write(addr, data)
        self.pokes += 1

    def drop(self, addr: int, size: int) -> None:
        self.dropped += 1

    def drop_all(self) -> None:
        self.dropped += 1


class FakeTraps:
    """Keeps the handlers."""

    def __init__(self) -> None:
        self.breakpoint: BreakpointHandler | None = None
        self.fault: FaultHandler | None = None
        self.entered: EntryHandler | None = None
        self.hypercalls: dict[int, HypercallHandler] = {}

    def on_breakpoint(self, handler: BreakpointHandler) -> None:
        self.breakpoint = handler

    def on_fault(self, handler: FaultHandler) -> None:
        self.fault = handler

    def on_entry(self, handler: EntryHandler) -> None:
        self.entered = handler

    def on_hypercall(self, reason: int, handler: HypercallHandler) -> None:
        self.hypercalls[reason] = handler


class FakeBacktrace:
    """Nobody has called anybody."""

    def trace(self, ip: int, sp: int, bp: int, limit: int) -> Sequence[int]:
        return [ip]


class FakeClock:
    """Moved by hand."""

    def __init__(self) -> None:
        self.time = 0
        self._number = 0
        self.timers: list[tuple[int, int, Callable[[], None]]] = []

    def now(self) -> KTime:
        return KTime(self.time)

    def real_offset(self) -> KTime:
        return KTime(1_000_000_000_000_000_000)

    def call_later(self, delay: KTime, func: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self.timers, (self.time + delay, self._number, func))

    def advance(self, ns: int) -> None:
        """Move it and run what falls due."""
        end = self.time + ns
        while self.timers and self.timers[0][0] <= end:
            self.time, _, func = heapq.heappop(self.timers)
            func()
        self.time = end


class FakeQuiescence:
    """A scheduler for which the test says where tasks are."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def call_after(self, func: Callable[[], None]) -> None:
        self.waiting.append(func)

    def quiesce(self) -> None:
        """Let a quiescent state pass for all that has been waiting for one."""
        waiting, self.waiting = self.waiting, []
        for func in waiting:
            func()


class FakeLog:
    """The lines with their levels."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, str]] = []

    def printk(self, level: int, text: str) -> None:
        self.lines.append((level, text))


class FakeMachine(Memory):
    """Implements Machine with bytearrays and a clock moved by hand."""

    arch = "fake"

    def __init__(self, nr_cpus: int = 2) -> None:
        self.nr_cpus = nr_cpus
        self.regions: list[tuple[int, bytearray]] = []
        self.pristine: dict[int, bytes] = {}  # function -> its code as added
        self._next = {TEXT_BASE: TEXT_BASE, MODULE_BASE: MODULE_BASE}
        self.kallsyms = FakeKallsyms()
        self.text = FakeText(self.kallsyms)
        self.text_writer = FakeTextWriter(self)
        self.modules = FakeModules()
        self.trace_events = FakeTraceEvents()
        self.area = FakeArea(self)
        self.runtime_image = FakeRuntimeImage()
        self.traps = FakeTraps()
        self.backtrace = FakeBacktrace()
        self.clock = FakeClock()
        self.quiescence = FakeQuiescence()
        self.log = FakeLog()
        self.running_cpu = 0
        self.task = TaskInfo(KAddr(DATA_BASE - PAGE), 1, "init", 0)
        self.registers = [0] * 21
        self.functions: dict[int, Callable[..., int]] = {}  # what call() runs

    # ---- building
    def add_function(
        self,
        name: str,
        code: bytes = ENTRY_NOP + NOP * 27,
        *,
        module: str = "",
        ftrace: bool = True,
        init: bool = False,
    ) -> KAddr:
        """A text symbol after the last one; ftrace: its entry is an ftrace site."""
        base = MODULE_BASE if module else TEXT_BASE
        addr = self._next[base]
        self._next[base] = addr + len(code)
        self.map(addr, code)
        self.pristine[addr] = code
        self.add_symbol(name, addr, len(code), "T", module)
        if ftrace and code.startswith(ENTRY_NOP):
            self.text.ftrace_sites.add(addr)
        if init:
            self.text.init_text.append((addr, addr + len(code)))
        return KAddr(addr)

    def add_symbol(
        self, name: str, addr: int, size: int, type_: str = "D", module: str = ""
    ) -> Symbol:
        symbol = Symbol(name, KAddr(addr), size, type_, module)
        self.kallsyms.add(symbol)
        return symbol

    def remove_symbols(self, addrs: Iterable[int]) -> None:
        """Unmap functions: what freeing a module's text does."""
        text = self.text
        for addr in addrs:
            code = self.pristine.pop(addr)
            self.kallsyms.remove(addr, len(code))
            self.regions = [r for r in self.regions if r[0] != addr]
            text.ftrace_sites.discard(addr)
            text.init_text = [r for r in text.init_text if r[0] != addr]

    def add_blacklist(self, symbol: Symbol) -> None:
        end = KAddr(symbol.addr + symbol.size)
        self.text.blacklisted.append(BlacklistEntry(symbol.addr, end, symbol.name))

    def map(self, addr: int, data: bytes) -> None:
        self.regions.append((addr, bytearray(data)))

    def patched(self) -> list[int]:
        """Addresses whose text is not what it was."""
        return [
            addr + i
            for addr, code in self.pristine.items()
            for i, (a, b) in enumerate(
                zip(code, self.read(addr, len(code)), strict=True)
            )
            if a != b
        ]

    # ---- memory
    def _find(self, addr: int, size: int) -> tuple[bytearray, int]:
        for base, mem in self.regions:
            if base <= addr and addr + size <= base + len(mem):
                return mem, addr - base
        raise MemoryFault(addr)

    def read(self, addr: int, size: int) -> bytes:
        mem, i = self._find(addr, size)
        return bytes(mem[i : i + size])

    def write(self, addr: int, data: bytes) -> None:
        mem, i = self._find(addr, len(data))
        mem[i : i + len(data)] = data

    def read_u64(self, addr: int) -> int:
        return int.from_bytes(self.read(addr, 8), "little")

    def write_u64(self, addr: int, value: int) -> None:
        self.write(addr, value.to_bytes(8, "little"))

    def view(self, addr: int, size: int) -> memoryview:
        mem, i = self._find(addr, size)
        return memoryview(mem)[i : i + size]

    # ---- CPUs
    def cpu(self) -> int:
        return self.running_cpu

    def current(self) -> TaskInfo:
        return self.task

    def read_regs(self) -> Sequence[int]:
        return list(self.registers)

    def write_regs(self, values: Sequence[int]) -> None:
        self.registers[:] = values

    def read_reg(self, index: int) -> int:
        return self.registers[index]

    def write_reg(self, index: int, value: int) -> None:
        self.registers[index] = value

    # ---- running and time
    def call(self, func: int, *args: int, task: TaskInfo | None = None) -> int:
        return self.functions[func](*args)

    def settle(self) -> None:
        """Let time and quiescent states pass until nothing is left to do."""
        clock, quiescence = self.clock, self.quiescence
        for _ in range(100):
            if not clock.timers and not quiescence.waiting:
                return
            if clock.timers:
                clock.advance(clock.timers[0][0] - clock.time)
            quiescence.quiesce()
        raise AssertionError("delayed work never ends")


class FakeInsn(ArchInsn):
    def __init__(self, slot: KAddr | None) -> None:
        self.slot = slot


class FakeOptInsn(ArchOptInsn):
    size = 5

    def __init__(self, slot: KAddr) -> None:
        self.slot = slot


class FakeOptimizer:
    """A jump may cover five PUSH."""

    JUMP = b"\xe9\x11\x22\x33\x44"

    def __init__(self, arch: FakeArch) -> None:
        self._arch = arch
        self._machine = arch.machine
        self.slots = KprobeInsnCache(arch.machine, 128, "kprobe_optinsn_page")
        self.detours: set[OptimizedKprobe] = set()  # where hits go on in the buffer

    def prepare(self, op: OptimizedKprobe) -> None:
        symbol = self._machine.kallsyms.symbol_at(op.addr)
        if symbol is None or self._arch.original(op.addr, 5) != PUSH * 5:
            return
        op.optinsn = FakeOptInsn(self.slots.get_insn_slot())

    def buffer(self, op: OptimizedKprobe) -> KAddr | None:
        return op.optinsn.slot if isinstance(op.optinsn, FakeOptInsn) else None

    def check(self, op: OptimizedKprobe) -> bool:
        assert op.optinsn is not None
        around = range(op.addr + 1, op.addr + FakeOptInsn.size)
        found = (self._arch.core.kprobe_table.get(KAddr(a)) for a in around)
        return all(p is None or kprobe_disarmed(p) for p in found)

    def covered(self, op: OptimizedKprobe) -> range:
        assert op.optinsn is not None
        return range(op.addr, op.addr + FakeOptInsn.size)

    def detour(self, op: OptimizedKprobe, on: bool) -> None:
        assert kprobe_optimized(op) is on
        if on:
            self.detours.add(op)
        else:
            self.detours.remove(op)

    def optimize(self, op: OptimizedKprobe) -> None:
        assert op in self.detours
        assert not kprobe_disabled(op)
        assert self._machine.read(op.addr, 5) == TRAP + PUSH * 4
        self._machine.text_writer.poke_text(op.addr, self.JUMP)
        self._arch.calls_made.append(("optimize", op.addr))

    def unoptimize(self, op: OptimizedKprobe) -> None:
        # one enabled again while it was to be undone has a breakpoint over its jump
        assert self._machine.read(op.addr, 5)[1:] == self.JUMP[1:]
        self._machine.text_writer.poke_text(op.addr, TRAP + PUSH * 4)
        self.detours.remove(op)
        self._arch.calls_made.append(("unoptimize", op.addr))

    def remove(self, op: OptimizedKprobe) -> None:
        if op.optinsn is not None:
            assert isinstance(op.optinsn, FakeOptInsn)
            self.slots.free_insn_slot(op.optinsn.slot)
            self.detours.discard(op)
            op.optinsn = None


class FakeRethooks:
    """Keeps which there are."""

    pre_handler = KAddr(0x5AFE)

    def __init__(self, arch: FakeArch) -> None:
        self._arch = arch
        self.there: dict[KAddr, int] = {}  # kp_rethook -> nmissed

    def alloc(self, rp: Kretprobe) -> None:
        self._arch.may_fail("rethooks.alloc")
        rp.addr = self._arch.new()
        self.there[rp.addr] = 0

    def free(self, rp: Kretprobe) -> None:
        del self.there[rp.addr]

    def nmissed(self, rp: Kretprobe) -> int:
        return self.there[rp.addr]


class FakeFtrace:
    """Writes a call over the entry nop."""

    CALL = b"\xe8\x55\x66\x77\x88"

    def __init__(self, arch: FakeArch) -> None:
        self._arch = arch
        self._writer = arch.machine.text_writer
        self.traced: set[int] = set()

    def prepare(self, p: Kprobe) -> None:
        p.opcode = ENTRY_NOP[:1]
        p.ainsn = FakeInsn(None)
        p.site = self._arch.new()

    def arm(self, p: Kprobe) -> None:
        self._arch.may_fail("ftrace.arm")
        assert p.addr in self._arch.sites
        self._writer.poke_text(p.addr, self.CALL)
        self._arch.calls_made.append(("arm", p.addr))

    def disarm(self, p: Kprobe) -> None:
        self._writer.poke_text(p.addr, ENTRY_NOP)
        self._arch.calls_made.append(("disarm", p.addr))

    def trace(self, add: Collection[KAddr], remove: Collection[KAddr]) -> None:
        self.traced = (self.traced | set(add)) - set(remove)

    def enable(self, on: bool) -> None:
        self._arch.calls_made.append(("ftrace_enable", on))

    def gone(self, addrs: Collection[KAddr]) -> None:
        self.traced -= set(addrs)


class FakeJprobes:
    """Implements Jprobes."""

    pre_handler = KAddr(0x5E7)
    break_handler = KAddr(0x109)

    def prepare(self) -> None:
        pass


class FakeRunning:
    """Implements Running: nothing ever is."""

    def kprobe_running(self) -> Kprobe | None:
        return None

    def kprobe_ctlblk(self) -> ControlBlock:
        return ControlBlock(0)

    def statuses(self, p: Kprobe) -> list[int]:
        return [0, 0]

    def cpus_handling(self) -> list[int]:
        return []

    def kprobe_reset(self, cpu: int) -> bool:
        return False


class FakeCalls:
    """One argument, in ax."""

    offsets: Mapping[str, int] = MappingProxyType({"ax": 80, "sp": 152})
    arguments: Sequence[str] = ("ax",)
    return_value = "ax"
    stack_pointer = "sp"

    def argument(self, regs: PtRegs, n: int) -> int:
        return int(regs[n])


class FakeTextPoke:
    """Counts how deep it is entered."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_exc: object) -> None:
        self.depth -= 1
        assert self.depth >= 0


class FakeArch:
    """Implements Arch; every wrong order of calls is an assertion."""

    name = "fake"
    kretprobe_blacklist: Sequence[str] = ("__switch_to",)
    calls: Calls = FakeCalls()

    def __init__(self, machine: FakeMachine) -> None:
        self.machine = machine
        self.calls_made: list[
            tuple[str, KAddr | bool]
        ] = []  # arm, disarm, optimize, unoptimize, ftrace_enable
        self.fail: dict[str, int] = {}  # method -> errno that it raises
        # address -> its live probes, and whether each is disabled
        self.sites: dict[KAddr, list[tuple[Kprobe, bool]]] = {}
        self.handlers: dict[KAddr, int] = {}  # kp_handler -> nmissed
        self._number = 0x1000
        self.text_poke = FakeTextPoke()
        self.opt = FakeOptimizer(self)
        self.rethooks = FakeRethooks(self)
        self.ftrace = FakeFtrace(self)
        self.jprobes = FakeJprobes()
        self.running = FakeRunning()

    def arch_init_kprobes(self, core: Core) -> None:
        self.core = core
        self.slots = KprobeInsnCache(self.machine, 32, "kprobe_insn_page")
        core.insn_caches += [self.slots, self.opt.slots]

    def new(self) -> KAddr:
        self._number += 0x40
        return KAddr(self._number)

    def may_fail(self, method: str) -> None:
        if method in self.fail:
            raise KernelError(self.fail[method], f"{method} was told to fail")

    def original(self, addr: int, size: int) -> bytes:
        """Text as it was: what recover_probed_instruction() is for."""
        symbol = self.machine.kallsyms.symbol_at(addr)
        assert symbol is not None
        i = addr - symbol.addr
        return self.machine.pristine[symbol.addr][i : i + size]

    def arch_within_kprobe_blacklist(self, addr: KAddr) -> bool:
        symbol = self.machine.kallsyms.symbol_at(addr)
        return symbol is not None and symbol.name.startswith("entry_")

    def arch_adjust_kprobe_addr(self, addr: KAddr, offset: int) -> tuple[KAddr, bool]:
        return KAddr(addr + offset), offset == 0

    # ---- plain probes
    def arch_prepare_kprobe(self, p: Kprobe) -> None:
        self.may_fail("arch_prepare_kprobe")
        addr = p.addr
        opcode = self.original(addr, 1)
        nop = self.machine.text.ftrace_location(addr - 4, addr - 1)
        if opcode == BAD or nop is not None:
            raise KernelError(errno.EILSEQ, "not an instruction boundary")
        if opcode == TRAP:
            raise KernelError(errno.EINVAL, "int3")
        p.opcode = opcode
        p.ainsn = FakeInsn(self.slots.get_insn_slot())
        p.site = self.new()

    def arch_remove_kprobe(self, p: Kprobe) -> None:
        assert p.ainsn is None or isinstance(p.ainsn, FakeInsn)
        if p.ainsn and p.ainsn.slot is not None:
            self.slots.free_insn_slot(p.ainsn.slot)
            p.ainsn.slot = None
        # one that was freed late may have a successor
        if self.core.kprobe_table.get(p.addr) in (None, p):
            self.sites.pop(p.addr, None)
        p.site = None

    def copied_insn(self, p: Kprobe) -> tuple[int, bool, int]:
        return 0x510, True, 1

    def boostable(self, p: Kprobe) -> int | None:
        return 1

    def arch_arm_kprobe(self, p: Kprobe) -> None:
        self.may_fail("arch_arm_kprobe")
        assert p.addr in self.sites
        self.machine.text_writer.poke_text(p.addr, TRAP)
        self.calls_made.append(("arm", p.addr))

    def arch_disarm_kprobe(self, p: Kprobe) -> None:
        self.may_fail("arch_disarm_kprobe")
        assert self.machine.read(p.addr, 1) in (TRAP, p.opcode)
        self.machine.text_writer.poke_text(p.addr, p.opcode)
        self.calls_made.append(("disarm", p.addr))

    def sync_site(self, p: Kprobe, changed: Kprobe | None = None) -> None:
        chain = p.list if p.is_aggr else [p]
        for kp in chain:
            if kp.handler is None:
                kp.handler = self.new()
                self.handlers[kp.handler] = 0
        self.sites[p.addr] = [(kp, kprobe_disabled(kp)) for kp in chain]

    def release_handler(self, p: Kprobe) -> None:
        assert p.handler is not None
        del self.handlers[p.handler]

    def hits(self, p: Kprobe) -> int:
        return 0

    def nmissed(self, p: Kprobe) -> int:
        assert p.handler is not None
        return self.handlers[p.handler]

    def text_listing(self, start: KAddr, end: KAddr) -> str:
        return ""


class FakeState(State):
    """A State on fakes, which are its machine and its arch."""

    machine: FakeMachine
    arch: FakeArch


def new_state(machine: FakeMachine | None = None, **config: Any) -> FakeState:
    machine = machine or FakeMachine()
    return FakeState(machine, FakeArch(machine), **config)


def slot_of(p: Kprobe) -> KAddr:
    """The slot of a probe whose architecture is the fake one."""
    assert isinstance(p.ainsn, FakeInsn)
    assert p.ainsn.slot is not None
    return p.ainsn.slot
