# SPDX-License-Identifier: GPL-2.0-or-later
"""A machine with an emulated CPU and no kernel: a few functions given as bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kpfs.base import abi, elf
from kpfs.base.ktypes import KAddr, Symbol, TaskInfo
from kpfs.engine import machine
from kpfs.engine.machine import RuntimeConfig
from kpfs.guest.emu.cpu import Cpu
from kpfs.guest.emu.cpu_registers import REG_FLAGS, REG_IP, REG_SP
from kpfs.guest.emu.memory import KERNEL_DATA, KERNEL_TEXT, Memory
from tests.guest import run_to, set_gs_base

RUNTIME = Path(__file__).parents[4] / "guest/image/runtime.o"
FUNC_SIZE = 256  # distance of the functions
NOP5 = bytes.fromhex("0f1f440000")
HC_END = abi.HC_IDLE
END_STUB = bytes((0xE7, HC_END, 0xEB, 0x00))  # out %eax, $HC_END; jmp to what follows
IF = 0x200
ANYWHERE = -1


class BareMachine(machine.Memory):
    """Implements kpfs.engine.machine.Machine as far as the hit path goes."""

    arch = "x86"
    nr_cpus = 2
    generation = 0

    def __init__(self, functions: dict[str, bytes]) -> None:
        if not RUNTIME.exists():
            pytest.skip("guest/image/runtime.o is not built")
        self.memory = Memory()
        self.cpu_ = Cpu(self.memory, self.nr_cpus)
        # one object for all parts, as there is so little of each
        self.kallsyms = self.text = self.area = self.traps = self
        self.clock = self.quiescence = self.log = self.runtime_image = self
        self.text_writer = self.cpu_
        text = bytearray(END_STUB.ljust(FUNC_SIZE, b"\xcc"))
        self.syms = []
        for name, code in functions.items():
            at = KAddr(abi.TEXT_BASE + len(text))
            self.syms.append(Symbol(name, at, FUNC_SIZE, "T"))
            text += code.ljust(FUNC_SIZE, b"\x90")
        self.text_end = abi.TEXT_BASE + len(text)
        self.sites: set[int] = {
            s.addr for s, code in zip(self.syms, functions.values(), strict=True)
            if code.startswith(NOP5)
        }  # fmt: skip
        self.exceptions: dict[int, int] = {}  # faulting instruction -> fixup
        self.memory.load_image(abi.TEXT_BASE, bytes(text), len(text), KERNEL_TEXT)
        self.stack_page = self.alloc_data(0x8000)
        self.stack = self.stack_page + 0x7000
        self.data = self.alloc_data(0x1000)  # per-CPU words, tasks, clock
        self.task = KAddr(self.data + 0x400)
        self.time_at = self.data + 0x800
        self.memory.write_u64(self.data + abi.KpfsPcpu.current_task, self.task)
        self.memory.write(self.task, struct.pack("<I4x16s", 42, b"testing"))
        self.later: list[Callable[[], None]] = []
        self.lines: list[str] = []
        self.fault_handler: Callable[[int, int, int], int | None] | None = None
        self.faults: list[tuple[int, int, int]] = []
        # what lies on the stack of load(); as flags it has no TF
        self.target = abi.TEXT_BASE + 2 * FUNC_SIZE
        self.stop_at = 0  # a fault there ends the run: nothing can be executed there
        self.cpu_.trap = self.trap
        self.cpu_.hypercalls[HC_END] = lambda eax: self.cpu_.stop()
        set_gs_base(self.cpu_, self.data)

    # ---- symbols and text
    def lookup_name(self, name: str) -> Sequence[Symbol]:
        return [s for s in self.syms if s.name == name]

    def addr(self, name: str, offset: int = 0) -> KAddr:
        return KAddr(self.lookup_name(name)[0].addr + offset)

    def symbol_at(self, addr: int) -> Symbol | None:
        found = (s for s in self.syms if s.addr <= addr < s.addr + s.size)
        return next(found, None)

    def is_text(self, addr: int) -> bool:
        return abi.TEXT_BASE <= addr < self.text_end

    def in_init_text(self, addr: int) -> bool:
        return False

    def module_of(self, addr: int) -> str:
        return ""

    def blacklist(self):
        return ()

    def ftrace_location(self, start: int, end: int) -> KAddr | None:
        found = [s for s in self.sites if start <= s <= end]
        return KAddr(min(found)) if found else None

    def text_reserved(self, start: int, end: int) -> bool:
        return False

    def has_exception_entry(self, start: int, end: int) -> bool:
        return any(start <= addr < end for addr in self.exceptions)

    def is_bug_site(self, addr: int) -> bool:
        return False

    # ---- memory
    def read(self, addr: int, size: int) -> bytes:
        return self.memory.read(addr, size)

    def write(self, addr: int, data: bytes) -> None:
        self.memory.write(addr, data)

    def read_u64(self, addr: int) -> int:
        return self.memory.read_u64(addr)

    def write_u64(self, addr: int, value: int) -> None:
        self.memory.write_u64(addr, value)

    def view(self, addr: int, size: int) -> memoryview:
        return self.memory.view(addr, size)

    def alloc_text(self, size: int, *, has_regs: bool = False) -> KAddr:
        return KAddr(self.memory.area.alloc(size, KERNEL_TEXT))

    def alloc_data(self, size: int) -> KAddr:
        return KAddr(self.memory.area.alloc(size, KERNEL_DATA))

    def alloc_ring(self, size, *, near):
        area = self.memory.near if near else self.memory.far
        return KAddr(area.alloc(size)), near

    def free_ring(self, addr):
        (self.memory.near if self.memory.near.has(addr) else self.memory.far).free(addr)

    def symbols(self) -> dict[str, KAddr]:
        image = elf.ElfFile(RUNTIME.read_bytes())
        places = {}
        for i, section in enumerate(image.sections):
            if section.flags & elf.SHF_ALLOC and section.size:
                code = section.flags & elf.SHF_EXECINSTR
                alloc = self.alloc_text if code else self.alloc_data
                places[i] = alloc(section.size)
        images, own = elf.relocate(image, places, lambda name: None)
        for i, data in images.items():
            self.memory.write(places[i], bytes(data))
        return {name: KAddr(addr) for name, addr in own.items()}

    @property
    def config(self) -> RuntimeConfig:
        pcpu = abi.KpfsPcpu
        return RuntimeConfig(
            gs_current=pcpu.current_task,
            gs_cpu=pcpu.cpu_number,
            gs_preempt=pcpu.preempt_count,
            gs_resched=pcpu.need_resched,
            task_pid=0,
            task_comm=8,
            task_rethooks=32,
            task_untouched=40,
            clock_step=100,
            clock=self.time_at,
        )

    # ---- CPUs
    def cpu(self) -> int:
        return self.cpu_.active

    def current(self) -> TaskInfo:
        return TaskInfo(self.task, 42, "testing", 0)

    def read_regs(self) -> Sequence[int]:
        return self.cpu_.read_regs()

    def write_regs(self, values: Sequence[int]) -> None:
        self.cpu_.write_regs(values)

    def read_reg(self, index: int) -> int:
        return self.cpu_.read_reg(index)

    def write_reg(self, index: int, value: int) -> None:
        self.cpu_.write_reg(index, value)

    def on_breakpoint(self, handler: Callable[[int], int | None]) -> None:
        self.cpu_.breakpoint = handler

    def on_fault(self, handler: Callable[[int, int, int], int | None]) -> None:
        self.fault_handler = handler

    def on_entry(self, handler: Callable[[int], None]) -> None:
        self.cpu_.entered = handler

    def on_hypercall(self, reason: int, handler: Callable[[int], None]) -> None:
        self.cpu_.hypercalls[reason] = handler

    def trap(self, vector: int) -> None:
        ip = self.read_reg(REG_IP)
        self.cpu_.clear_exception(vector)
        if self.stop_at in (ip, ANYWHERE):
            self.cpu_.stop()
            return
        self.faults.append((vector, ip, self.cpu_.fault_address()))
        to = None
        if self.fault_handler:
            to = self.fault_handler(vector, ip, self.cpu_.fault_address())
        if to is None:
            to = self.exceptions.get(self.read_reg(REG_IP))
        if to is None:
            raise AssertionError(f"trap {vector} at {self.read_reg(REG_IP):#x}")
        self.write_reg(REG_IP, to)

    # ---- running
    def prepare(self, func: int, regs: dict[int, int] | None = None) -> list[int]:
        """Set registers for a call of func that ends the run when it returns."""
        values = [0] * 21
        for index, value in (regs or {}).items():
            values[index] = value
        values[REG_SP] = self.stack
        values[REG_FLAGS] |= IF | 2
        values[REG_IP] = func
        self.memory.write_u64(self.stack, abi.TEXT_BASE)
        self.cpu_.write_regs(values)
        return values

    def call(self, func: int, *args: int, task: TaskInfo | None = None) -> int:
        self.prepare(func, dict(zip((14, 13, 12, 11, 9, 8), args, strict=False)))
        self.cpu_.run()
        return self.read_reg(10)

    def step(self, values: list[int], steps: int = 1) -> tuple[list[int], bytes]:
        """Run so many instructions; registers and stack then."""
        self.load(values)
        self.stop_at = ANYWHERE
        self.cpu_.run(steps)
        self.stop_at = 0
        return self.outcome()

    def run_to(self, values: list[int], addr: int) -> tuple[list[int], bytes]:
        """Run until addr; registers and stack then, from the lower stack pointer on."""
        self.load(values)
        self.stop_at = addr
        run_to(self.cpu_, addr)
        self.stop_at = 0
        return self.outcome()

    def load(self, values: list[int]) -> None:
        page = bytearray(0x8000)
        struct.pack_into(
            "<64Q", page, 0x7000, *[self.target + 8 * i for i in range(64)]
        )
        self.memory.write(self.stack_page, bytes(page))
        self.cpu_.write_regs(values)

    def outcome(self) -> tuple[list[int], bytes]:
        values = list(self.cpu_.read_regs())
        sp = values[REG_SP]
        return values, self.memory.read(sp, self.stack_page + 0x8000 - sp)

    def now(self) -> int:
        return self.memory.read_u64(self.time_at)

    def printk(self, level: int, text: str) -> None:
        self.lines.append(text)

    def call_later(self, delay: int, func: Callable[[], None]) -> None:
        self.later.append(func)

    def call_after(self, func: Callable[[], None]) -> None:
        self.later.append(func)

    def run_later(self) -> None:
        """Run the deferred calls until none is left."""
        while self.later:
            self.later.pop(0)()
