# SPDX-License-Identifier: GPL-2.0-or-later
"""Guest: the guest kernel in its machine, as the engine sees it (Machine)."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial

from kpfs.base import abi, elf
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import MASK64, KTime, TaskInfo
from kpfs.base.typed import TYPE_CHECKING, NamedTuple
from kpfs.base.units import DEFAULT_CPUS, PAGE_SIZE
from kpfs.emulator.libunicorn import EmulatorError
from kpfs.engine.machine import RuntimeConfig
from kpfs.guest.emu import memory
from kpfs.guest.emu.cpu import Cpu
from kpfs.guest.emu.traps import Traps
from kpfs.guest.images import (
    CALLS_SUFFIX,
    DEBUG_SUFFIX,
    IMAGE_DIR,
    KERNEL_IMAGE,
    LEGACY,
    NOT_LEGACY,
    RUNTIME_IMAGE,
    SOURCES,
)
from kpfs.guest.loader.engine import EngineArea, RuntimeImage
from kpfs.guest.loader.kallsyms import Kallsyms
from kpfs.guest.loader.kernel_text import KernelText
from kpfs.guest.loader.modules import CTL_MODULE, Modules
from kpfs.guest.loader.percpu import ModulePerCpu
from kpfs.guest.running.clock import Clock
from kpfs.guest.running.control import Control
from kpfs.guest.running.cpu_states import CpuStates
from kpfs.guest.running.host_tasks import HostTasks
from kpfs.guest.running.jump_labels import JumpLabels
from kpfs.guest.running.klog import KernelLog
from kpfs.guest.running.quiescence import Quiescence
from kpfs.guest.running.requests import Requests
from kpfs.guest.running.sched import Sched
from kpfs.guest.running.syscalls import Syscalls
from kpfs.guest.running.tasks import TaskTable, read_info

if TYPE_CHECKING:
    from kpfs.guest.emu.debugreg import DebugRegisters
    from kpfs.guest.loader.call_graph import CallGraph
    from kpfs.guest.running.backtrace import Backtrace
    from kpfs.guest.running.trace_events import TraceEvents

BACKGROUND_TURNS = 64  # at most, before the lock is given back
_RECORD_NS = 100  # the time of a trace record on a live clock
_QUIET_RECORD_NS = 1000
_U64 = struct.Struct("<Q")
_USER_NAMES = {  # system calls whose function is named otherwise
    "newstat": "stat",
    "newlstat": "lstat",
    "newfstat": "fstat",
    "newuname": "uname",
    "sendfile64": "sendfile",
}


class Configuration(NamedTuple):
    """The kernel's configuration."""

    # the nops at functions' entries may become calls; else they are nops like any other
    dynamic_ftrace: bool = True
    preemption: bool = True
    kallsyms_all: bool = True
    modules: bool = True
    module_unload: bool = True
    legacy_symbols: bool = False

    @property
    def hidden(self) -> Sequence[str]:
        """Return the names of the functions that the kernel is to be without."""
        return NOT_LEGACY if self.legacy_symbols else LEGACY


DEFAULT_CONFIGURATION = Configuration()


class Guest:
    """The guest kernel, booted: kpfs.engine.machine.Machine, and what files show of it.

    Everything is control context unless its docstring says otherwise; the caller holds
    the one lock.  ``syscalls`` makes system calls as tasks of host processes.
    """

    arch = "x86"

    def __init__(
        self,
        nr_cpus: int = DEFAULT_CPUS,
        *,
        quiet: bool = False,
        workload: bool = True,
        configuration: Configuration = DEFAULT_CONFIGURATION,
        ram_size: int = memory.RAM_SIZE,
    ) -> None:
        """Load and boot.

        quiet: time is virtual.  workload: background programs run, if it is not quiet.
        """
        if not 1 <= nr_cpus <= abi.NR_CPUS:
            raise KernelError(errno.EINVAL, f"1 to {abi.NR_CPUS} CPUs")
        self.nr_cpus = nr_cpus
        self.quiet = quiet
        self._workload = workload and not quiet
        self.configuration = configuration
        self._load(ram_size)
        self._make_processor()
        self._make_kernel_parts()
        self._serve_control_calls()
        self._boot()
        self._pass_hot_methods()

    # ---- the phases of its making
    def _load(self, ram_size: int) -> None:
        """Put the kernel's image into memory, and read what it says of itself."""
        self.memory = mem = memory.Memory(ram_size)
        self._image = elf.ElfFile(_read_image(KERNEL_IMAGE))
        self._load_segments()
        self._hide_names()
        built = self.configuration
        self.kallsyms = Kallsyms(self._image, built.kallsyms_all, built.hidden)
        self.info = read_info(mem, self.needed("kpfs_guest_info"))
        self.task_table = TaskTable(mem, self.info)

    def _make_processor(self) -> None:
        """Make the CPUs, the clock, and the trap table."""
        mem = self.memory
        self.cpus = self.text_writer = Cpu(mem, self.nr_cpus, self._in_module)
        self._shared = mem.alloc_low(PAGE_SIZE)
        self.clock = Clock(mem, self._shared, self.quiet)
        self.traps = Traps(self.cpus, mem, self.address_of)

    def _in_module(self, ip: int) -> bool:
        return self.modules.at(ip) is not None

    def _make_kernel_parts(self) -> None:
        """Make the parts that know the running kernel, and work on it."""
        mem = self.memory
        self.log = KernelLog(
            mem,
            self.info.log,
            self.clock.now,
            self.kallsyms.sprint_symbol,
            console_printk=self.address_of("console_printk") or 0,
        )
        self.control = Control(mem, self.info, self.nr_cpus)
        self.cpu_states = CpuStates(mem)
        self.sched = Sched(
            self.cpus,
            mem,
            self.cpu_states,
            self.traps,
            self.clock,
            timer_entry=self.needed("asm_sysvec_apic_timer_interrupt"),
            serve_control=self.control.serve,
            panic_reason=self.log.panic_reason,
            printk=self.log.printk,
            in_module=self._in_module,
        )
        self.quiescence = Quiescence(
            self.cpu_states, self.task_table, lambda: self.sched.turns
        )
        self.requests = Requests(
            mem,
            self.sched,
            self.cpu_states,
            self.quiescence,
            self.clock,
            self.task_table,
            wakeups=self._shared + 0x100,
            resched_entry=self.needed("asm_sysvec_reschedule_ipi"),
        )
        self.syscalls = Syscalls(
            mem,
            self.requests,
            numbers=self._syscall_numbers,
            address_of=self.address_of,
        )
        self.host_tasks = HostTasks(
            mem,
            self.requests,
            self.syscalls,
            nr_cpus=self.nr_cpus,
            run_until_idle=self.sched.run_until_idle,
            forks_seen=self.forks_seen,
        )
        vermagic = mem.read_cstring(self.needed("vermagic"), 256).decode("latin-1")
        self.modules = Modules(
            mem,
            self.cpus,
            self.kallsyms,
            self._image,
            self._module_percpu(),
            say=self.log.printk,
            current_pid=lambda: self.current().pid,
            later=self.quiescence.call_after,
            vermagic=vermagic,
            can_unload=self.configuration.module_unload,
        )
        self.text = KernelText(
            self._image,
            self.kallsyms,
            self.modules,
            self.address_of,
            text=range(self.needed("_stext"), self.needed("_etext")),
            dynamic_ftrace=self.configuration.dynamic_ftrace,
        )
        self._jump_labels = JumpLabels(mem, self._image, self.cpus.drop)
        self._run_function: Callable[[int], int] = self.call
        self.area = EngineArea(mem)
        self.runtime_image = RuntimeImage(
            mem,
            self.kallsyms,
            partial(_read_image, RUNTIME_IMAGE),
            self.address_of,
            self._runtime_config(),
        )

    def _serve_control_calls(self) -> None:
        """Register the servers of hypercalls that need the whole guest to stand."""
        register, percpu = self.control.register, self.modules.percpu
        register(CTL_MODULE, self.modules.serve)
        register((abi.CTL_SYMBOL_FIND,), self.modules.find_symbol)
        register((abi.CTL_PERCPU_ALLOC, abi.CTL_PERCPU_FREE), percpu.serve)
        register((abi.CTL_JUMP_LABEL,), self._jump_labels.serve)
        # these are made when they are first asked for
        register((abi.CTL_TRACEPOINT,), lambda *args: self.trace_events.serve(*args))
        register((abi.CTL_DEBUGREG,), lambda *args: self._debug_registers.serve(*args))
        register((abi.CTL_STACK_TRACE,), lambda *args: self.backtrace.serve(*args))

    def _pass_hot_methods(self) -> None:
        """Have the hottest methods be those of the parts themselves."""
        cpus, mem = self.cpus, self.memory
        self.read_regs: Callable[[], Sequence[int]] = cpus.read_regs
        self.write_regs = cpus.write_regs
        self.read_reg, self.write_reg = cpus.read_reg, cpus.write_reg
        self.read, self.write, self.view = mem.read, mem.write, mem.view
        self.read_u64, self.write_u64 = mem.read_u64, mem.write_u64
        self.read_cstring = mem.read_cstring

    # ---- boot
    def _load_segments(self) -> None:
        data = self._image.data
        for seg in self._image.segments:
            flags = memory.KERNEL_TEXT if seg.flags & 1 else memory.KERNEL_DATA
            contents = data[seg.offset : seg.offset + seg.filesz]
            self.memory.load_image(seg.vaddr, contents, seg.memsz, flags)

    def _hide_names(self) -> None:
        """Hide functions that are not configured from the kernel's own kallsyms."""
        begin, image = self.needed("kallsyms_names"), self._image
        places = (s.vaddr - s.offset for s in image.segments if s.vaddr <= begin)
        place = max(places)  # where the file's segment lies
        for name in self.configuration.hidden:
            at = image.data.index(b"\0%s\0" % name.encode(), begin - place)
            self.memory.write(place + at + 1, b"?")

    @cached_property
    def _addresses(self) -> dict[str, int]:
        """Global symbols by name, for the machine's own use: cheaper than kallsyms."""
        return self._image.addresses()

    def address_of(self, name: str) -> int | None:
        """Return the address of a global symbol of the kernel."""
        return self._addresses.get(name)

    def needed(self, name: str) -> int:
        """Return the address of a symbol that the image must have."""
        addr = self._addresses.get(name)
        if addr is None:
            raise EmulatorError(f"the guest image lacks {name}: rebuild it")
        return addr

    @property
    def kptr_restrict(self) -> int:
        """The sysctl kernel.kptr_restrict, 0 to 2."""
        return self.memory.read_u32(self.needed("kptr_restrict"))

    @kptr_restrict.setter
    def kptr_restrict(self, value: int) -> None:
        at = self.needed("kptr_restrict")
        self.memory.write(at, value.to_bytes(4, "little"))

    def _boot(self) -> None:
        """Start CPU 0, then the others, and run until all are idle."""
        mem, shared = self.memory, abi.DIRECT_MAP + self._shared
        words = (
            self.nr_cpus,
            mem.image_pages_end,
            mem.ram_size,
            self.quiet,
            self._workload,
            shared,
            shared + 0x100,
            self.clock.boot_time,
            self._config_word(),
        )
        abi.KpfsBootParams.STRUCT.pack_into(mem.ram, self._shared + 0x40, *words)
        info = self.info
        self.sched.start_cpu(0, info.percpu_base, self._image.entry, shared + 0x40)
        self.sched.run(lambda: self.cpu_states.idle[0])
        for number in range(1, self.nr_cpus):
            pcpu = info.percpu_base + number * info.percpu_size
            entry = self.needed("secondary_startup_64")
            self.sched.start_cpu(number, pcpu, entry, number)
        self.sched.run_until_idle(BACKGROUND_TURNS)
        self.sched.watch(self.log.next_seq_at)

    def _config_word(self) -> int:
        """Return the part of the configuration that the guest is told at boot."""
        built = self.configuration
        word = abi.CONFIG_PREEMPTION if built.preemption else 0
        if built.modules:
            word |= abi.CONFIG_MODULES
            word |= abi.CONFIG_MODULE_UNLOAD if built.module_unload else 0
        word |= abi.CONFIG_LEGACY_SYMBOLS if built.legacy_symbols else 0
        return word

    def close(self, *, in_use: bool = False) -> None:
        """Free the emulator and the memory; the guest is gone.

        in_use: readers may still look at the memory, until they learn that.
        """
        self.sched.dead = "the guest is gone"
        self.host_tasks.close()
        self.cpus.close()
        self.memory.close(in_use=in_use)

    def _module_percpu(self) -> ModulePerCpu:
        size = self.info.percpu_size
        start, end = self.needed("__per_cpu_reserved"), self.info.percpu_base + size
        return ModulePerCpu(self.memory, range(start, end), size, self.nr_cpus)

    # ---- what few guests need
    @cached_property
    def backtrace(self) -> Backtrace:
        from kpfs.guest.running.backtrace import Backtrace

        return Backtrace(
            self.memory,
            self.cpus,
            self._image,
            self.modules,
            self.task_table,
            kallsyms=self.kallsyms,
            area=self.area,
            runtime=self.runtime_image,
        )

    @cached_property
    def _debug_registers(self) -> DebugRegisters:
        from kpfs.guest.emu.debugreg import DebugRegisters

        base, size = self.info.percpu_base, self.info.percpu_size
        pcpus = [base + size * number for number in range(self.nr_cpus)]
        return DebugRegisters(self.cpus, self.memory, self.traps, pcpus)

    def _runtime_config(self) -> RuntimeConfig:
        info = self.info
        return RuntimeConfig(
            gs_current=abi.KpfsPcpu.current_task,
            gs_cpu=abi.KpfsPcpu.cpu_number,
            gs_preempt=abi.KpfsPcpu.preempt_count,
            gs_resched=abi.KpfsPcpu.need_resched,
            task_pid=info.task_pid,
            task_comm=info.task_comm,
            task_rethooks=info.task_rethooks,
            task_untouched=info.task_untouched,
            clock_step=_QUIET_RECORD_NS if self.quiet else _RECORD_NS,
            clock=abi.DIRECT_MAP + self._shared,
        )

    # ---- events of trace points
    @cached_property
    def trace_events(self) -> TraceEvents:
        from kpfs.guest.running.trace_events import TraceEvents

        return TraceEvents(
            self.memory,
            self._image,
            self._jump_labels,
            self._addresses,
            self._syscall_table(),
            self.modules,
            lambda function: self._run_function(function),
        )

    @contextmanager
    def put_off(self, note: Callable[[int], int]) -> Iterator[None]:
        """Have functions of trace points noted, as guest code waits for us."""
        self._run_function = note
        try:
            yield
        finally:
            self._run_function = self.call

    # ---- who can see what tasks do
    @property
    def label_changes(self) -> int:
        """Changes with each switch of an event of the kernel.  Context: any."""
        return self._jump_labels.changes

    def places_of_events(self) -> Iterator[int]:
        """Return the places in the text of the events that are switched on."""
        return self._jump_labels.places_on()

    def forks_seen(self) -> bool:
        """Return True if the event sched_process_fork is on, which names parents."""
        return self._jump_labels.is_on(self.needed("__tracepoint_sched_process_fork"))

    @cached_property
    def call_graph(self) -> CallGraph:
        from kpfs.guest.loader.call_graph import CallGraph

        return CallGraph(_read_image(KERNEL_IMAGE + CALLS_SUFFIX).decode())

    # ---- CPUs (hit)
    def cpu(self) -> int:
        return self.cpus.active

    def current(self) -> TaskInfo:
        return self.task_table.current(self.cpus.active)

    # ---- running and time
    def call(self, func: int, *args: int, task: TaskInfo | None = None) -> int:
        host = None if task is None else self.requests.find(task.pid)
        return self.syscalls.call_function(host, func, *args) & MASK64

    def next_deadline(self) -> KTime | None:
        """Return the time at which tick() must be called next: now if work is left.

        None means never.  The caller waits so long on the host's clock, on a quiet
        machine too.
        """
        if not self.cpu_states.all_idle() or self.quiescence:
            return self.clock.now()
        deadline, timer = self.cpu_states.next_deadline(), self.clock.next_timer()
        if deadline is None or (timer is not None and timer < deadline):
            deadline = timer
        if deadline is None:
            return None
        self.clock.await_deadline(deadline)
        return KTime(deadline)

    def tick(self) -> None:
        """Background work: time has come to next_deadline().

        Interrupts CPUs whose timer is due and runs until all are idle, or a fair share.
        """
        deadline = self.next_deadline()
        if deadline is None:
            return
        self.clock.advance(deadline)
        self.clock.run_timers()
        self.sched.expire()
        self.sched.run_until_idle(BACKGROUND_TURNS)
        self.quiescence.check()

    # ---- what else the files show
    def vmlinux(self, debug_info: bool) -> bytes:
        """Return the image that runs; with its debug information if wanted."""
        image = bytes(self._image.data)
        if not debug_info:
            return image
        from kpfs.guest.loader.debug_info import with_debug_info

        debug = _read_image(KERNEL_IMAGE + DEBUG_SUFFIX)
        return with_debug_info(image, debug, os.fsencode(SOURCES))

    def stats(self) -> dict[str, int]:
        """Return counters for machine/stats."""
        return {"turns": self.sched.turns, "cpus": self.nr_cpus}

    def _syscall_numbers(self) -> dict[str, int]:
        """Return the system calls by the names that programs know them by."""
        table = self._syscall_table().items()
        return {_USER_NAMES.get(name, name): number for name, number in table}

    def _syscall_table(self) -> dict[str, int]:
        """Return names, as in their declarations, and numbers of the system calls."""
        prefix = "__x64_sys_"
        names = {
            addr: name[len(prefix) :]
            for name, addr in self._addresses.items()
            if name.startswith(prefix)
        }
        table = self.needed("sys_call_table")
        symbol = self.kallsyms.symbol_at(table)
        if symbol is None:  # it is data, which kallsyms need not have
            found = (s for s in self._image.symbols() if s.value == table and s.size)
            size = next(s.size for s in found)
        else:
            size = symbol.size
        raw = self.memory.read(table, size)
        return {
            names[addr]: number
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
