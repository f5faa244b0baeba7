# SPDX-License-Identifier: GPL-2.0-or-later
"""The protocol of the kernel beneath the engine.

``Guest`` implements Machine for the guest kernel, ``tests.fake.FakeMachine`` with a
bytearray.  Nothing in engine/ may reach the guest by any other way.

Machine itself has what a hit needs: memory, registers, the running task.  All else is
in objects of their own, its attributes; code that needs only one of them is given that.

Contexts: *control* means that the guest is stopped at an instruction boundary on every
CPU; *hit* means inside a trap or hypercall of the running guest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kpfs.base.ktypes import BlacklistEntry, KAddr, KTime, StaticEvent, Symbol, TaskInfo
from kpfs.base.typed import NamedTuple, Protocol

# Called in hit context with the address of the trapping instruction's successor (the
# int3's own address + 1); returns the address to go on at, None if it is not ours.
BreakpointHandler = Callable[[int], int | None]
# Called in hit context with (trap number, address of the faulting instruction, fault
# address) before the exception table is tried; returns where to go on, None: not ours.
# With None it may have written the ip to attribute the fault to another instruction:
# what the exception table and an oops go by is read_reg(ip) after the call.
FaultHandler = Callable[[int, int, int], int | None]
# Called in hit context with the low 32 bits that the guest put in EAX.
HypercallHandler = Callable[[int], None]
# Called in hit context with the address behind an "int $TRAP_ENTRY".
EntryHandler = Callable[[int], None]
_STEP = 16


class RuntimeConfig(NamedTuple):
    """The kernel's part of struct kp_config, for engine/runtime.

    Offsets from the GS base, offsets in the task structure, and the clock.
    """

    gs_current: int  # pointer to the current task
    gs_cpu: int  # 32 bits, number of the CPU
    gs_preempt: int  # 32 bits, in Linux's layout
    gs_resched: int  # 32 bits, non-zero for need-resched; 0xffffffff: there is none
    task_pid: int
    task_comm: int
    task_rethooks: int  # a word for the engine, 0 in a new task
    task_untouched: int  # two words: from where to where user memory is not in yet
    clock_step: int  # ns that a record takes
    clock: int  # address of the word of ns since boot


class Memory(Protocol):
    """The guest's memory; read_cstring() is inherited.  Context: either."""

    def read(self, addr: int, size: int) -> bytes:
        """Guest memory, text included; MemoryFault where a page is missing."""

    def write(self, addr: int, data: bytes) -> None:
        """Write data memory (never text); MemoryFault where a page is missing."""

    def read_u64(self, addr: int) -> int: ...

    def write_u64(self, addr: int, value: int) -> None: ...

    def read_cstring(self, addr: int, limit: int) -> bytes:
        """Return the bytes at addr up to a NUL, limit bytes at most."""
        text = b""
        while len(text) < limit:
            # up to the next boundary, so that no page is touched needlessly
            at = addr + len(text)
            size = min(_STEP - at % _STEP, limit - len(text))
            piece, nul, _ = self.read(at, size).partition(b"\0")
            text += piece
            if nul:
                break
        return text

    def view(self, addr: int, size: int) -> memoryview:
        """Writable bytes of a block got from alloc_data(), for cheap access."""


class RunningCpu(Protocol):
    """The CPU that is running, and its task.  Context: hit."""

    def cpu(self) -> int:
        """Return the number of the CPU that is running."""

    def current(self) -> TaskInfo:
        """Return the task running on that CPU."""

    def read_regs(self) -> Sequence[int]:
        """Return all registers in the order of struct pt_regs, unsigned."""

    def write_regs(self, values: Sequence[int]) -> None: ...

    def read_reg(self, index: int) -> int:
        """One register, by its index in struct pt_regs."""

    def write_reg(self, index: int, value: int) -> None: ...


class Kallsyms(Protocol):
    """The kernel's symbols.  An implementation inherits sprint_symbol().

    Context: control; symbol_at() and sprint_symbol(): any, even without the lock.
    """

    generation: int = 0  # changes with the symbols

    def __iter__(self) -> Iterator[Symbol]:
        """Yield all symbols in kallsyms order: the kernel by address, then modules."""

    def lookup_name(self, name: str) -> Sequence[Symbol]:
        """Return the symbols of that name ("mod:name": of that module), by address.

        Kernel: kallsyms_lookup_name(), which takes the first.
        """

    def symbol_at(self, addr: int) -> Symbol | None:
        """Return the function or object covering addr, None if none does.

        Of several names at one address it is the one that kallsyms_lookup() gives.
        """

    def sprint_symbol(self, addr: int) -> str:
        """name+0xoffset/0xsize [module], as %pS prints it.  Kernel: sprint_symbol()"""
        symbol = self.symbol_at(addr)
        if symbol is None:
            return hex(addr)
        module = f" [{symbol.module}]" if symbol.module else ""
        return f"{symbol.name}+{addr - symbol.addr:#x}/{symbol.size:#x}{module}"


class KernelText(Protocol):
    """The tables about the text of the kernel and its modules.  Context: control."""

    def is_text(self, addr: int) -> bool:
        """Return True for text or init text in use.  Kernel: kernel_text_address()."""

    def in_init_text(self, addr: int) -> bool:
        """Return True for text that is freed after a module's init."""

    def module_of(self, addr: int) -> str:
        """Name of the module whose text holds addr, "" if none."""

    def blacklist(self) -> Sequence[BlacklistEntry]:
        """NOKPROBE_SYMBOL functions, then section ranges, in the kernel's order."""

    def ftrace_location(self, start: int, end: int) -> KAddr | None:
        """Return the first site in [start, end].  Kernel: ftrace_location_range()."""

    def ftrace_locations(self) -> Sequence[KAddr]:
        """Return all ftrace sites, the kernel's by address, then those of modules."""

    def text_reserved(self, start: int, end: int) -> bool:
        """Return True if bytes [start, end] belong to a jump label or static call."""

    def has_exception_entry(self, start: int, end: int) -> bool:
        """Return True if an instruction in [start, end) has an exception entry."""

    def is_bug_site(self, addr: int) -> bool:
        """Return True if the instruction at addr is the ud2 of a BUG or WARN."""


class Modules(Protocol):
    """Modules, each by the address of its structure.  Context: control."""

    def try_module_get(self, module: int) -> bool:
        """Keep a module; False if it is being unloaded.  Kernel: try_module_get()"""

    def module_put(self, module: int) -> None:
        """Undo one try_module_get().  Kernel: module_put()"""


class TraceEvents(Protocol):
    """The events of trace points, of the kernel and of modules.  Context: control."""

    def all(self) -> Sequence[StaticEvent]:
        """Return all of them, oldest first."""

    def of_module(self, name: str) -> Sequence[StaticEvent]:
        """Return those of a module that is coming."""

    def forget(self, group: str, name: str) -> None:
        """Forget an event that is off, as its module goes."""

    def enable(self, group: str, name: str, event: int, commit: int) -> None:
        """Let guest code record an event: commit(event, record, size); 0: no more.

        The head of a record (8 bytes) is for commit to fill in.
        """

    def follow_fork(self, func: int) -> None:
        """Let guest code call func(pid, child's pid) at each fork; 0: no more.

        And func(0, pid) of each task that is gone.
        """


class Area(Protocol):
    """Memory of the engine's own.  Context: control."""

    def alloc_text(self, size: int, *, has_regs: bool = False) -> KAddr:
        """Executable pages in 32-bit reach of all text; size is rounded up to pages.

        has_regs: where code there calls, a struct pt_regs is on top of the stack.
        """

    def alloc_data(self, size: int) -> KAddr:
        """Zeroed non-executable pages, physically contiguous, in the top 2 GiB.

        So their addresses are sign-extended 32-bit immediates.
        """

    def alloc_ring(self, size: int, *, near: bool) -> tuple[KAddr, bool]:
        """Zeroed data pages that cost nothing until they are written; ENOMEM.

        near: if possible in the top 2 GiB, as those of alloc_data() are; whether they
        are is returned with their address.
        """

    def free_ring(self, addr: int) -> None:
        """Give back a block got from alloc_ring()."""


class RuntimeImage(Protocol):
    """The image of engine/runtime, the engine's own code in the guest."""

    @property
    def config(self) -> RuntimeConfig: ...

    def symbols(self) -> dict[str, KAddr]:
        """Return its symbols.  The first call loads it.  Context: control."""


class TextWriter(Protocol):
    """Writes text, for engine/arch/*/text_patching.py alone.  Context: control."""

    def poke_text(self, addr: int, data: bytes) -> None:
        """Write text; what was translated of it keeps running until it is dropped."""

    def drop(self, addr: int, size: int) -> None:
        """Forget the translated code of [addr, addr+size)."""

    def drop_all(self) -> None: ...


class Traps(Protocol):
    """Takes the handlers of traps and hypercalls.

    Context: control; the handlers run in hit context.
    """

    def on_breakpoint(self, handler: BreakpointHandler) -> None:
        """Let handler be asked first about each breakpoint trap."""

    def on_fault(self, handler: FaultHandler) -> None:
        """Let it be asked first about other traps (#PF 14, #GP 13, #DE 0, #UD 6)."""

    def on_hypercall(self, reason: int, handler: HypercallHandler) -> None:
        """Let handler serve a reason; 0x20 to 0x5f are the engine's."""

    def on_entry(self, handler: EntryHandler) -> None:
        """Let handler be told of each TRAP_ENTRY; the guest goes on behind it."""


class Backtrace(Protocol):
    """Stack traces.  Context: either."""

    def trace(self, ip: int, sp: int, bp: int, limit: int) -> Sequence[int]:
        """ip and the return addresses of its callers, as far as they can be found.

        Of a task that is at ip with these registers.
        """


class Clock(Protocol):
    """The guest's time."""

    def now(self) -> KTime:
        """ns since boot."""

    def real_offset(self) -> KTime:
        """Return what to add to now() for the time of day."""

    def call_later(self, delay: KTime, func: Callable[[], None]) -> None:
        """Run func once in control context, delay after now."""


class Quiescence(Protocol):
    """The whereabouts of tasks.  Context: control."""

    def call_after(self, func: Callable[[], None]) -> None:
        """Run func in control context once no task can still be inside unlinked text.

        Kernel: call_rcu_tasks().
        """


class KernelLog(Protocol):
    """The guest's kernel log.  Context: either."""

    def printk(self, level: int, text: str) -> None:
        """Append a line."""


class Machine(Memory, RunningCpu, Protocol):
    """A guest kernel and the CPUs it runs on."""

    arch: str  # key of kpfs.engine.arch.arches.ARCHES
    nr_cpus: int

    @property
    def kallsyms(self) -> Kallsyms: ...
    @property
    def text(self) -> KernelText: ...
    @property
    def text_writer(self) -> TextWriter: ...
    @property
    def modules(self) -> Modules: ...
    @property
    def trace_events(self) -> TraceEvents: ...
    @property
    def area(self) -> Area: ...
    @property
    def runtime_image(self) -> RuntimeImage: ...
    @property
    def traps(self) -> Traps: ...
    @property
    def backtrace(self) -> Backtrace: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def quiescence(self) -> Quiescence: ...
    @property
    def log(self) -> KernelLog: ...

    def call(self, func: int, *args: int, task: TaskInfo | None = None) -> int:
        """Run a guest function as task, None: init; return its unsigned value."""
