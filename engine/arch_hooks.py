# SPDX-License-Identifier: GPL-2.0-or-later
"""The protocol of an architecture: the kernel's arch_* hooks.

Checklist for one more architecture: a folder engine/arch/NAME with a class that has
every member of Arch and is made as Class(machine), a row in engine/arch/arches.py, a
guest image with its engine/runtime assembly.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager

from kpfs.base.ktypes import KAddr
from kpfs.base.typed import NamedTuple, Protocol
from kpfs.engine.kprobe import Kprobe, OptimizedKprobe, PtRegs
from kpfs.engine.machine import Machine
from kpfs.engine.rethook import Kretprobe
from kpfs.engine.slots import KprobeInsnCache


class Core(Protocol):
    """The part of the core that an architecture sees: kpfs.engine.state.State."""

    machine: Machine
    # address -> the probe or the aggr_kprobe standing for several; the core alone
    # changes it.  kprobe_table.get(addr) is the kernel's get_kprobe().
    kprobe_table: dict[KAddr, Kprobe]
    # each cache of slots that the architecture makes goes here: such addresses are
    # refused as probe points and kallsyms shows the pages
    insn_caches: list[KprobeInsnCache]
    kprobes_on_ftrace: bool  # False: entry nops are ordinary instructions


class Optimizer(Protocol):
    """Replaces breakpoints by jumps and back.  Context: control."""

    def prepare(self, op: OptimizedKprobe) -> None:
        """Set op.optinsn, if op.addr can become a jump; else leave it None.

        op.ainsn is not set yet.  Kernel: arch_prepare_optimized_kprobe()
        """

    def check(self, op: OptimizedKprobe) -> bool:
        """Return True if no armed probe stands behind the first byte that op covers.

        It asks kprobe_disarmed() about each probe that kprobe_table has there.
        Kernel: arch_check_optimized_kprobe()
        """

    def covered(self, op: OptimizedKprobe) -> range:
        """Addresses under op's jump.  Kernel: arch_within_optimized_kprobe()"""

    def buffer(self, op: OptimizedKprobe) -> KAddr | None:
        """Return the address of op's detour buffer, if it has one."""

    def detour(self, op: OptimizedKprobe, on: bool) -> None:
        """Have hits of op's breakpoint go on in the detour buffer, or in the slot.

        The slot leads back into the bytes that a jump covers, the buffer behind them.
        Kernel: setup_detour_execution()
        """

    def optimize(self, op: OptimizedKprobe) -> None:
        """Turn op's breakpoint into a jump.  Kernel: arch_optimize_kprobes()"""

    def unoptimize(self, op: OptimizedKprobe) -> None:
        """Put the original bytes behind an int3, whose hits go on in the slot.

        Kernel: arch_unoptimize_kprobe()
        """

    def remove(self, op: OptimizedKprobe) -> None:
        """Give back the detour buffer and clear op.optinsn; the text is not touched.

        Kernel: arch_remove_optimized_kprobe()
        """


class Rethooks(Protocol):
    """Makes and frees return hooks.  Context: control."""

    @property
    def pre_handler(self) -> KAddr:
        """Address of the guest code that hooks a call, at the function's entry.

        A Kretprobe's kp gets it as its pre_handler, with the Kretprobe's addr as data.
        Kernel: pre_handler_kretprobe()
        """

    def alloc(self, rp: Kretprobe) -> None:
        """Make its struct kp_rethook with maxactive free nodes; set rp.addr."""

    def free(self, rp: Kretprobe) -> None:
        """Mark it RETHOOK_DISABLED: its handlers are not called any more.

        Functions that are still to return do so through their nodes; the memory is
        used again when all nodes are back.
        """

    def nmissed(self, rp: Kretprobe) -> int:
        """Return the number of calls that found no free node and were not hooked."""


class Ftrace(Protocol):
    """Patches the nops at functions' entries.  Context: control."""

    def prepare(self, p: Kprobe) -> None:
        """Prepare a probe on an entry nop.  Kernel: arch_prepare_kprobe_ftrace()"""

    def arm(self, p: Kprobe) -> None:
        """Patch the call over the entry nop.  Kernel: arm_kprobe_ftrace()"""

    def disarm(self, p: Kprobe) -> None:
        """Undo what arm() did.  Kernel: disarm_kprobe_ftrace()"""

    def trace(self, add: Collection[KAddr], remove: Collection[KAddr]) -> None:
        """Let the functions ``add`` call the function tracer, ``remove`` no more."""

    def enable(self, on: bool) -> None:
        """Let ftrace sites call tracers and probes, or (on is False) nothing.

        Kernel: ftrace_startup_sysctl(), ftrace_shutdown_sysctl()
        """

    def gone(self, addrs: Collection[KAddr]) -> None:
        """Forget traced functions whose text is gone."""


class Jprobes(Protocol):
    """The guest code of jprobes.  Context: control."""

    @property
    def pre_handler(self) -> KAddr:
        """Address of the pre_handler of jprobes whose entry, their data, is guest code.

        Kernel: setjmp_pre_handler()
        """

    @property
    def break_handler(self) -> KAddr:
        """The break_handler of every jprobe.  Kernel: longjmp_break_handler()"""

    def prepare(self) -> None:
        """Get ready for jprobes that call guest code, before one is registered."""


class ControlBlock(NamedTuple):
    """The probe that a CPU is handling.  Kernel: struct kprobe_ctlblk"""

    status: int  # KP_IDLE, KP_HIT_ACTIVE ...
    flags: int = 0  # at the hit: those that a trap changes
    previous: Kprobe | None = (
        None  # the state that a hit within its handler interrupted
    )
    previous_status: int = 0
    jprobe_sp: int = 0  # this and the rest: saved while an entry function runs
    jprobe_regs: Sequence[int] = ()
    jprobe_stack: Sequence[int] = ()


class Running(Protocol):
    """Probes that are being handled.  Kernel: current_kprobe, struct kprobe_ctlblk"""

    def kprobe_running(self) -> Kprobe | None:
        """Return the probe whose handler runs on the running CPU.  Context: either."""

    def kprobe_ctlblk(self) -> ControlBlock:
        """Return what the running CPU is handling.  Context: either.

        Kernel: get_kprobe_ctlblk()
        """

    def statuses(self, p: Kprobe) -> Sequence[int]:
        """kprobe_status of each CPU, 0 where it does not handle that table entry.

        Context: control.
        """

    def cpus_handling(self) -> Collection[int]:
        """Return the CPUs that are handling a probe.  Context: control."""

    def kprobe_reset(self, cpu: int) -> bool:
        """Clean up after a dying task; True: it was in a hit.  Context: control."""


class Calls(Protocol):
    """Says where a function's arguments are, for the arguments of kprobe events."""

    @property
    def offsets(self) -> Mapping[str, int]:
        """Offsets in struct pt_regs by register name."""

    # names of registers: of a function's first arguments, and two more
    @property
    def arguments(self) -> Sequence[str]: ...
    @property
    def return_value(self) -> str: ...
    @property
    def stack_pointer(self) -> str: ...

    def argument(self, regs: PtRegs, n: int) -> int:
        """Argument n of a function, from 0, at its entry.

        Context: hit.  Kernel: regs_get_kernel_argument()
        """


class Arch(Protocol):
    """One architecture, as the core uses it.

    Every method is for control context unless it says otherwise.

    p is an entry of kprobe_table (a plain probe or an aggr_kprobe) unless it says
    otherwise.  p.ainsn, p.opcode and p.site belong to the architecture; the core only
    hands the same objects on from a plain probe to the aggr_kprobe that replaces it
    and to the probes that join it.
    """

    name: str
    # names of functions that cannot have return probes.  Kernel: kretprobe_blacklist
    kretprobe_blacklist: Sequence[str]

    @property
    def opt(self) -> Optimizer: ...
    @property
    def rethooks(self) -> Rethooks: ...
    @property
    def ftrace(self) -> Ftrace: ...
    @property
    def jprobes(self) -> Jprobes: ...
    @property
    def running(self) -> Running: ...
    @property
    def calls(self) -> Calls: ...
    @property
    def text_poke(self) -> AbstractContextManager[object]:
        """A batch of text writes: what they can share is put off to its end; it nests.

        Put off are the writing of the kernel's text and the dropping of translated
        code: until the end machine.read() may show the text as it was.  For what stood
        there before any probe ask the architecture, never the memory.
        """

    def arch_init_kprobes(self, core: Core) -> None:
        """Keep the core, hook traps, load the runtime; State calls it once."""

    def arch_within_kprobe_blacklist(self, addr: KAddr) -> bool:
        """Return True if an address of the kernel's or a module's text is forbidden."""

    def arch_adjust_kprobe_addr(self, addr: KAddr, offset: int) -> tuple[KAddr, bool]:
        """Return (address of the probe, whether it is the function's entry)."""

    def arch_prepare_kprobe(self, p: Kprobe) -> None:
        """Check the instruction, copy it to a slot and analyse it.

        Sets p.opcode, p.ainsn and p.site.  When it raises, nothing is left allocated.
        EILSEQ: not an instruction boundary; EINVAL: an instruction that cannot be
        probed (int3, BUG site, refused kinds); ENOMEM: no slot.
        """

    def arch_remove_kprobe(self, p: Kprobe) -> None:
        """Give back p's slot, site and stub, for use after a quiescent state.

        The text is not touched, as it is disarmed or gone already.  A second call for
        the same ainsn does nothing.
        """

    def arch_arm_kprobe(self, p: Kprobe) -> None: ...

    def arch_disarm_kprobe(self, p: Kprobe) -> None: ...

    def sync_site(self, p: Kprobe, changed: Kprobe | None = None) -> None:
        """Make the guest's kp_site and kp_handlers say what p (and its list) say.

        changed: the one probe of the list that has come, gone or changed its flags, so
        that what is said of all others can stay.

        Called by the core after every change of p.list, flags or handlers, and before
        the text is armed.  The flag OPTIMIZED is excepted: opt.optimize() and
        opt.unoptimize() see to what it means for the site.  A probe in p.list
        (or p itself) that has no kp_handler yet gets one, zeroed: p.handler.  All of
        this may be put off as long as p has always been disabled.
        """

    def release_handler(self, p: Kprobe) -> None:
        """Give back p's kp_handler, for use after a quiescent state.

        p is one probe that is on no list any more, never an aggr_kprobe.
        """

    def hits(self, p: Kprobe) -> int:
        """Return how often the address of an entry was hit, missed or not."""

    def nmissed(self, p: Kprobe) -> int:
        """Return how often one registered probe (never an aggr_kprobe) was missed."""

    def copied_insn(self, p: Kprobe) -> tuple[int, bool, int]:
        """Return the copy of a prepared probe's instruction, zeros if there is none.

        That is its address, 1 if it may end in a jump back, and its length.
        Kernel: struct arch_specific_insn
        """

    def boostable(self, p: Kprobe) -> int | None:
        """Return 1 if p's copy ends in a jump back, 0 if it can, -1 if it cannot.

        None if there is no copy.  Kernel: arch_specific_insn.boostable, as it once was
        """

    def text_listing(self, start: KAddr, end: KAddr) -> str:
        """Disassemble text as it is now, with the slots and detour buffers in use."""
