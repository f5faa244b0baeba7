# SPDX-License-Identifier: GPL-2.0-or-later
"""Guest: our kernel in its machine, as the engine sees it (Machine)."""

from __future__ import annotations

import errno
import os
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from kpfs import abi
from kpfs.engine.errors import KernelError
from kpfs.engine.ktypes import (
    MASK64,
    BlacklistEntry,
    KAddr,
    KTime,
    StaticEvent,
    Symbol,
    Task,
)
from kpfs.engine.machine import (
    BreakpointHandler,
    EntryHandler,
    FaultHandler,
    HypercallHandler,
    RuntimeConfig,
)
from kpfs.guest.emu import memory
from kpfs.guest.emu.cpu import Cpu
from kpfs.guest.emu.libunicorn import EmulatorError
from kpfs.guest.emu.traps import Traps
from kpfs.guest.kernel.backtrace import Backtrace
from kpfs.guest.kernel.clock import Clock
from kpfs.guest.kernel.control import Control
from kpfs.guest.kernel.jump_labels import JumpLabels
from kpfs.guest.kernel.klog import KernelLog, LogRecord
from kpfs.guest.kernel.sched import Sched
from kpfs.guest.kernel.syscalls import HostTask, Syscalls
from kpfs.guest.kernel.tasks import TaskTable, read_info
from kpfs.guest.kernel.trace_events import TraceEvents
from kpfs.guest.loader import elf, modref
from kpfs.guest.loader.kallsyms import Kallsyms, SymbolTable
from kpfs.guest.loader.modules import CTL_MODULE, Modules
from kpfs.guest.loader.objects import LoadedObject, load_object
from kpfs.guest.loader.percpu import ModulePerCpu
from kpfs.guest.loader.sections import Tables

IMAGE_DIR = os.path.join(os.path.dirname(__file__), "image")
KERNEL_IMAGE = "vmlinux"
RUNTIME_IMAGE = "runtime.o"
RUNTIME_PREFIX = "kp_"  # of names that Linux does not have
DEFAULT_CPUS = 2
BACKGROUND_TURNS = 64  # at most, before the lock is given back
_RECORD_NS = 100  # what a trace record takes on a live clock
_QUIET_RECORD_NS = 1000
_ENGINE_REASONS = range(0x20, 0x61)
_U64 = struct.Struct("<Q")
_USER_NAMES = {  # of system calls whose function is named otherwise
    "newstat": "stat",
    "newlstat": "lstat",
    "newfstat": "fstat",
    "newuname": "uname",
    "sendfile64": "sendfile",
}


class Guest:
    """The guest kernel, booted.

    Everything is control context unless its docstring says otherwise; the caller holds
    the one lock.  ``syscalls`` makes system calls as tasks of host processes.
    """

    arch = "x86"

    def __init__(
        self,
        nr_cpus: int = DEFAULT_CPUS,
        *,
        quiet: bool = False,
        dynamic_ftrace: bool = True,
        image: str | None = None,
        ram_size: int = memory.RAM_SIZE,
    ) -> None:
        """Load and boot; ``quiet`` is without background tasks, on virtual time.

        dynamic_ftrace: the nops at functions' entries may become calls; else they are
        nops like any other.
        """
        if not 1 <= nr_cpus <= abi.NR_CPUS:
            raise KernelError(errno.EINVAL, f"1 to {abi.NR_CPUS} CPUs")
        self.nr_cpus = nr_cpus
        self.quiet = quiet
        self._boot_time = 0 if quiet else int(time.time())  # seconds since 1970
        self._dynamic_ftrace = dynamic_ftrace
        self._memory = memory.Memory(ram_size)
        self._image = elf.ElfFile(_read_image(image or KERNEL_IMAGE))
        self._load_segments()
        self._cpu = Cpu(self._memory, nr_cpus)
        self._shared = self._memory.alloc_low(memory.PAGE_SIZE)
        self.clock = Clock(self._memory, self._shared, quiet)
        self._traps = Traps(self._cpu, self._memory, self.address_of)
        self._sched = Sched(self._cpu, self._memory, self._traps, self.clock)
        self._kallsyms = Kallsyms(self._image)
        self._info = read_info(self._memory, self._needed("kpfs_guest_info"))
        self.task_table = TaskTable(self._memory, self._info)
        self._timer_entry = self._needed("asm_sysvec_apic_timer_interrupt")
        self.syscalls = Syscalls(
            *(self._memory, self._sched, self.clock, self.task_table),
            wakeups=self._shared + 0x100,
            resched_entry=self._needed("asm_sysvec_reschedule_ipi"),
            numbers=self._syscall_numbers,
        )
        self.syscalls.expire = self._expire
        self._sched.on_yield = self._yielded
        self._runtime: LoadedObject | None = None
        self.log = KernelLog(self._memory, self._info.log, self.sprint_symbol)
        self._sched.panic_reason = self._panic_reason
        self.control = Control(self._memory, self._info, nr_cpus)
        self._sched.on_control = self.control.serve
        self.modules = Modules(
            *(self._memory, self._cpu, self._kallsyms, self._image),
            self._module_percpu(),
            say=self.printk,
            current_pid=lambda: self.current().pid,
            later=self._sched.call_after_quiescence,
            vermagic=self._vermagic(),
        )
        self.control.register(CTL_MODULE, self.modules.serve)
        self._jump_labels = JumpLabels(self._memory, self._image, self._cpu.drop)
        self.control.register(
            range(abi.CTL_JUMP_LABEL, abi.CTL_JUMP_LABEL + 1), self._jump_labels.serve
        )
        self._backtrace = Backtrace(
            *(self._memory, self._cpu, self._image, self.modules, self.task_table),
            symbol_at=self.symbol_at,
            runtime=lambda: self._runtime,
        )
        self.control.register(
            range(abi.CTL_STACK_TRACE, abi.CTL_STACK_TRACE + 1), self._backtrace.serve
        )
        self._boot()
        self._bind()

    # ---- boot
    def _load_segments(self) -> None:
        data = self._image.data
        for seg in self._image.segments:
            flags = memory.KERNEL_TEXT if seg.flags & 1 else memory.KERNEL_DATA
            contents = data[seg.offset : seg.offset + seg.filesz]
            self._memory.load_image(seg.vaddr, contents, seg.memsz, flags)

    @cached_property
    def _addresses(self) -> dict[str, int]:
        """Global symbols by name, for the machine's own use: cheaper than kallsyms."""
        return {
            s.name: s.value
            for s in self._image.symbols()
            if s.shndx and s.bind == elf.STB_GLOBAL
        }

    def address_of(self, name: str) -> int | None:
        """Address of a global symbol of the kernel."""
        return self._addresses.get(name)

    def _needed(self, name: str) -> int:
        addr = self._addresses.get(name)
        if addr is None:
            raise EmulatorError(f"the guest image lacks {name}: rebuild it")
        return addr

    def _boot(self) -> None:
        """Start CPU 0, then the others, and run until all are idle."""
        mem, shared = self._memory, self._shared
        params = shared + 0x40
        abi.KpfsBootParams.STRUCT.pack_into(
            *(mem.ram, params, self.nr_cpus, mem.image_pages_end, mem.ram_size),
            *(self.quiet, abi.DIRECT_MAP + shared, abi.DIRECT_MAP + shared + 0x100),
            self._boot_time,
        )
        info = self._info
        self._sched.start_cpu(
            0, info.percpu_base, self._image.entry, abi.DIRECT_MAP + params
        )
        self._sched.run(lambda: self._sched.is_idle(0))
        for number in range(1, self.nr_cpus):
            pcpu = info.percpu_base + number * info.percpu_size
            entry = self._needed("secondary_startup_64")
            self._sched.start_cpu(number, pcpu, entry, number)
        self._sched.run_until_idle(BACKGROUND_TURNS)

    def _bind(self) -> None:
        """Make the hot methods those of the parts themselves."""
        cpu, mem = self._cpu, self._memory
        self.read_regs: Callable[[], tuple[int, ...]] = cpu.read_regs
        self.write_regs: Callable[[Sequence[int]], None] = cpu.write_regs
        self.read_reg: Callable[[int], int] = cpu.read_reg
        self.write_reg: Callable[[int, int], None] = cpu.write_reg
        self.read: Callable[[int, int], bytes] = mem.read
        self.write: Callable[[int, bytes], None] = mem.write
        self.read_u64: Callable[[int], int] = mem.read_u64
        self.write_u64: Callable[[int, int], None] = mem.write_u64
        self.view: Callable[[int, int], memoryview] = mem.view

    def read_cstring(self, addr: int, limit: int) -> bytes:
        """A string of guest memory without its NUL."""
        return self._memory.read_cstring(addr, limit)

    def close(self) -> None:
        """Free the emulator; the guest is gone."""
        self.syscalls.close()
        self._cpu.close()

    # ---- symbols
    def symbols(self) -> Iterable[Symbol]:
        return iter(self._kallsyms)

    def lookup_name(self, name: str) -> Sequence[Symbol]:
        return self._kallsyms.lookup_name(name)

    def symbol_at(self, addr: int) -> Symbol | None:
        return self._kallsyms.symbol_at(addr)

    def sprint_symbol(self, addr: int) -> str:
        """As %pS prints it.  Kernel: sprint_symbol()."""
        sym = self.symbol_at(addr)
        if sym is None:
            return hex(addr)
        module = f" [{sym.module}]" if sym.module else ""
        return f"{sym.name}+{addr - sym.addr:#x}/{sym.size:#x}{module}"

    def _module_percpu(self) -> ModulePerCpu:
        reserved = self._needed("__per_cpu_reserved")
        return ModulePerCpu(self._memory, reserved, self._info, self.nr_cpus)

    def _vermagic(self) -> str:
        """What a module must say it was built for."""
        raw = self._memory.read_cstring(self._needed("vermagic"), 256)
        return raw.decode("latin-1")

    # ---- text and what is known of it
    @cached_property
    def _tables(self) -> Tables:
        tables = Tables()
        tables.add(self._image, self._section_address)
        return tables

    def _section_address(self, name: str) -> int | None:
        section = self._image.section(name)
        return section.addr if section else None

    @cached_property
    def _text_range(self) -> tuple[int, int]:
        return self._needed("_stext"), self._needed("_etext")

    def is_text(self, addr: int) -> bool:
        start, end = self._text_range
        return start <= addr < end or self.modules.is_text(addr)

    def in_init_text(self, addr: int) -> bool:
        """A module's; the kernel's own init text is no text any more."""
        return self.modules.in_init_text(addr)

    def module_of(self, addr: int) -> str:
        module = self.modules.at(addr)
        return module.name if module else ""

    def blacklist(self) -> Sequence[BlacklistEntry]:
        own = self._tables.blacklist(self.symbol_at, self.address_of)
        return [*own, *self.modules.blacklist()]

    def ftrace_location(self, start: int, end: int) -> KAddr | None:
        if not self._dynamic_ftrace:
            return None
        found = self._tables.ftrace_location(start, end)
        return self.modules.ftrace_location(start, end) if found is None else found

    def ftrace_locations(self) -> Sequence[KAddr]:
        if not self._dynamic_ftrace:
            return []
        return [
            *map(KAddr, self._tables.ftrace_sites),
            *self.modules.ftrace_locations(),
        ]

    def text_reserved(self, start: int, end: int) -> bool:
        return self._tables.text_reserved(start, end) or self.modules.text_reserved(
            start, end
        )

    def has_exception_entry(self, start: int, end: int) -> bool:
        return self._tables.has_exception_entry(
            start, end
        ) or self.modules.has_exception_entry(start, end)

    def is_bug_site(self, addr: int) -> bool:
        return addr in self._tables.bugs or self.modules.is_bug_site(addr)

    # ---- memory of the engine's own
    def alloc_text(self, size: int, *, has_regs: bool = False) -> KAddr:
        addr = self._memory.area.alloc(size, memory.KERNEL_TEXT)
        if has_regs:
            self._backtrace.regs_frames.append(range(addr, addr + size))
        return KAddr(addr)

    def alloc_data(self, size: int) -> KAddr:
        return KAddr(self._memory.area.alloc(size, memory.KERNEL_DATA))

    def free_data(self, addr: int) -> None:
        self._memory.area.free(addr)

    def runtime_symbols(self) -> dict[str, KAddr]:
        if self._runtime is None:
            data = _read_image(RUNTIME_IMAGE)
            self._runtime = load_object(self._memory, data, self.address_of)
            functions = self._runtime.functions(RUNTIME_PREFIX)
            self._kallsyms.runtime = SymbolTable(functions)
        return {name: KAddr(addr) for name, addr in self._runtime.symbols.items()}

    def runtime_config(self) -> RuntimeConfig:
        info, pcpu = self._info, abi.KpfsPcpu
        return RuntimeConfig(
            *(pcpu.current_task, pcpu.cpu_number),
            *(pcpu.preempt_count, pcpu.need_resched),
            *(info.task_pid, info.task_comm, info.task_rethooks),
            _QUIET_RECORD_NS if self.quiet else _RECORD_NS,
            abi.DIRECT_MAP + self._shared,
        )

    # ---- events of trace points
    @cached_property
    def trace_events(self) -> TraceEvents:
        names = {user: name for name, user in _USER_NAMES.items()}
        numbers = {
            names.get(name, name): number
            for name, number in self._syscall_numbers().items()
        }
        return TraceEvents(
            self._memory, self._image, self._jump_labels, self._addresses, numbers
        )

    def static_events(self) -> Sequence[StaticEvent]:
        return self.trace_events.all()

    def enable_static_event(
        self, group: str, name: str, event: int, commit: int
    ) -> None:
        self.trace_events.enable(group, name, KAddr(event), KAddr(commit))

    def try_module_get(self, module: int) -> bool:
        return modref.try_module_get(self._memory, module)

    def module_put(self, module: int) -> None:
        modref.module_put(self._memory, module)

    # ---- text writes
    def poke_text(self, addr: int, data: bytes) -> None:
        self._memory.write(addr, data)

    def drop_translations(self, addr: int, size: int) -> None:
        self._cpu.drop(addr, size)

    def drop_all_translations(self) -> None:
        self._cpu.drop_all()

    # ---- CPUs (hit)
    def cpu(self) -> int:
        return self._cpu.active

    def current(self) -> Task:
        return self.task_table.current(self._cpu.active)

    def stack_trace(self, ip: int, sp: int, bp: int, limit: int) -> Sequence[int]:
        return self._backtrace.trace(ip, sp, bp, limit)

    # ---- traps and hypercalls
    def on_breakpoint(self, handler: BreakpointHandler) -> None:
        self._traps.on_breakpoint(handler)

    def on_fault(self, handler: FaultHandler) -> None:
        self._traps.on_fault(handler)

    def on_entry(self, handler: EntryHandler) -> None:
        self._cpu.entered = handler

    def on_hypercall(self, reason: int, handler: HypercallHandler) -> None:
        if reason not in _ENGINE_REASONS:
            raise ValueError(f"hypercall {reason:#x} is the machine's own")
        self._cpu.hypercalls[reason] = handler

    # ---- running and time
    def call(self, func: int, *args: int, task: Task | None = None) -> int:
        host = None if task is None else self.syscalls.find(task.pid)
        return self.syscalls.call_function(host, func, *args) & MASK64

    def host_task(
        self, pid: int, uid: int, comm: str | None = None, parent: int | None = None
    ) -> HostTask:
        """The guest task of a host process; see Syscalls.host_task()."""
        return self.syscalls.host_task(pid, uid, comm, parent)

    def now(self) -> KTime:
        return self.clock.now()

    def real_offset(self) -> KTime:
        return KTime(self._boot_time * 1_000_000_000)

    def devkmsg_emit(self, facility: int, level: int, text: bytes) -> None:
        """One record of the log that is not the kernel's own."""
        self.log.store(facility, level, text, self.clock.now())

    def printk(self, level: int, text: str) -> None:
        """Context: either."""
        self.log.append(level, text, self.clock.now())

    def kernel_log(self, since: int = 0) -> list[LogRecord]:
        """The records of the kernel log from a sequence number on."""
        return self.log.records(since)

    def call_later(self, delay: KTime, func: Callable[[], None]) -> None:
        self.clock.call_later(delay, func)

    def call_after_quiescence(self, func: Callable[[], None]) -> None:
        self._sched.call_after_quiescence(func)

    def next_deadline(self) -> KTime | None:
        """When tick() must be called next; now, if work is left; None: never.

        The caller waits so long on the host's clock, on a quiet machine too.
        """
        if not self._sched.all_idle() or self._sched.quiescence_wanted():
            return self.now()
        times = [self._sched.next_deadline(), self.clock.next_timer()]
        deadline = min((KTime(t) for t in times if t is not None), default=None)
        if deadline is not None:
            self.clock.await_deadline(deadline)
        return deadline

    def tick(self) -> None:
        """Background work: time has come to next_deadline().

        Interrupts CPUs whose timer is due and runs until all are idle, or a fair share.
        """
        deadline = self.next_deadline()
        if deadline is None:
            return
        self.clock.advance(deadline)
        self.clock.run_timers()
        self._expire()
        self._sched.run_until_idle(BACKGROUND_TURNS)
        self._sched.note_quiescence()

    def _yielded(self) -> None:
        """A busy CPU gets its timer interrupts too."""
        self.clock.step()
        self._expire()

    def _expire(self) -> None:
        self._sched.expire(self.clock.now(), self._timer_entry)

    def _panic_reason(self) -> str:
        """The line of the log that says why the kernel is dead."""
        lines = [r.text.decode(errors="replace") for r in self.log.records()]
        return next((x for x in lines if x.startswith("Kernel panic")), "kernel panic")

    # ---- what else the files show
    def tasks(self) -> list[Task]:
        return list(self.task_table)

    def stats(self) -> dict[str, int]:
        """Counters for machine/stats."""
        return {"turns": self._sched.turns, "cpus": self.nr_cpus}

    def _syscall_numbers(self) -> dict[str, int]:
        """Names and numbers of the system calls, from sys_call_table."""
        prefix = "__x64_sys_"
        names = {
            addr: name[len(prefix) :]
            for name, addr in self._addresses.items()
            if name.startswith(prefix)
        }
        table = self._needed("sys_call_table")
        symbol = self.symbol_at(table)
        raw = self._memory.read(table, symbol.size if symbol else 0)
        return {
            _USER_NAMES.get(names[addr], names[addr]): number
            for number, (addr,) in enumerate(_U64.iter_unpack(raw))
            if addr in names and names[addr] != "ni_syscall"
        }


def _read_image(name: str) -> bytes:
    path = name if os.path.isabs(name) else os.path.join(IMAGE_DIR, name)
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as exc:
        raise EmulatorError(f"{path}: {exc.strerror}: run scripts/build-guest") from exc
