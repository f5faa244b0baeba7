# SPDX-License-Identifier: GPL-2.0-or-later
"""What an architecture gives the core: the kernel's arch_* hooks.

Checklist for one more architecture: a folder engine/arch/NAME with a class that has
every member of Arch and is made as Class(machine), a row in engine/arch/arches.py, a
guest image with its engine/runtime assembly.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from kpfs.engine.kprobe import Kprobe, OptimizedKprobe, PtRegs
from kpfs.engine.ktypes import KAddr
from kpfs.engine.machine import Machine
from kpfs.engine.rethook import Rethook
from kpfs.engine.slots import KprobeInsnCache


class Core(Protocol):
    """What the core gives its architecture; kpfs.engine.state.State is it."""

    machine: Machine
    # address -> the probe or the aggr_kprobe standing for several; the core alone
    # changes it.  kprobe_table.get(addr) is the kernel's get_kprobe().
    kprobe_table: dict[KAddr, Kprobe]
    # each cache of slots that the architecture makes goes here: such addresses are
    # refused as probe points and kallsyms shows the pages
    insn_caches: list[KprobeInsnCache]
    kprobes_on_ftrace: bool  # False: entry nops are ordinary instructions


class Optimizer(Protocol):
    """Jumps for breakpoints.  Context: control."""

    @property
    def max_length(self) -> int:
        """Bytes that a jump and its instructions can cover."""

    def prepare(self, op: OptimizedKprobe) -> None:
        """Set op.optinsn, if op.addr can become a jump; else leave it None.

        op.ainsn is not there yet.  Kernel: arch_prepare_optimized_kprobe()
        """

    def check(self, op: OptimizedKprobe) -> bool:
        """Whether no armed probe stands in the bytes after the first that op covers.

        Ask kprobe_disarmed() of what kprobe_table has there.
        Kernel: arch_check_optimized_kprobe()
        """

    def within(self, op: OptimizedKprobe, addr: KAddr) -> bool:
        """Whether addr is one of the bytes that op's jump covers.

        Kernel: arch_within_optimized_kprobe()
        """

    def optimize(self, op: OptimizedKprobe) -> None:
        """Turn its breakpoint into a jump.  Kernel: arch_optimize_kprobes()"""

    def unoptimize(self, op: OptimizedKprobe) -> None:
        """Turn its jump into a breakpoint followed by the original bytes.

        Kernel: arch_unoptimize_kprobe()
        """

    def remove(self, op: OptimizedKprobe) -> None:
        """Give back the detour buffer and clear op.optinsn; the text is not touched.

        Kernel: arch_remove_optimized_kprobe()
        """


class Rethooks(Protocol):
    """Return hooks.  Context: control."""

    @property
    def pre_handler(self) -> KAddr:
        """Guest code of the pre_handler of a return probe's entry.

        What a Kretprobe's kp gets as pre_handler, with rethook.addr as its data.
        Kernel: pre_handler_kretprobe()
        """

    def alloc(self, rh: Rethook) -> None:
        """Make its struct kp_rethook with maxactive free nodes; sets rh.addr."""

    def free(self, rh: Rethook) -> None:
        """Mark it RETHOOK_DISABLED: no handler of it is called any more.

        Functions that are still to return do so through their nodes; memory is used
        again when all nodes are back.
        """

    def nmissed(self, rh: Rethook) -> int:
        """Calls that found no free node."""


class Ftrace(Protocol):
    """The entry nops of functions.  Context: control."""

    def prepare(self, p: Kprobe) -> None:
        """As Arch.arch_prepare_kprobe(), for a probe on a nop.

        Kernel: arch_prepare_kprobe_ftrace()
        """

    def arm(self, p: Kprobe) -> None:
        """Patch the call over the entry nop.  Kernel: arm_kprobe_ftrace()"""

    def disarm(self, p: Kprobe) -> None:
        """Kernel: disarm_kprobe_ftrace()"""

    def trace(self, add: Collection[KAddr], remove: Collection[KAddr]) -> None:
        """Have functions call the function tracer at their ftrace sites, or no more."""

    def enable(self, on: bool) -> None:
        """Whether ftrace sites call anything, be it a tracer or a probe.

        Kernel: ftrace_startup_sysctl(), ftrace_shutdown_sysctl()
        """

    def gone(self, addrs: Collection[KAddr]) -> None:
        """The text of traced functions is gone."""


class Jprobes(Protocol):
    """The guest code of jprobes.  Context: control."""

    @property
    def pre_handler(self) -> KAddr:
        """Of a jprobe with guest code as entry, whose address is its data.

        Kernel: setjmp_pre_handler()
        """

    @property
    def break_handler(self) -> KAddr:
        """Of every jprobe.  Kernel: longjmp_break_handler()"""

    def prepare(self) -> None:
        """Called before the first jprobe is registered that calls guest code."""


class Running(Protocol):
    """What is being handled.  Kernel: current_kprobe, struct kprobe_ctlblk"""

    def kprobe_running(self) -> Kprobe | None:
        """The probe whose handler runs on the running CPU.  Context: either."""

    def cpus_handling(self) -> Collection[int]:
        """The CPUs that are in the middle of handling a probe.  Context: control."""

    def kprobe_reset(self, cpu: int) -> bool:
        """The running task of this CPU dies: whether it was handling a probe.

        Context: control.
        """


class Calls(Protocol):
    """Where a function's arguments are: for the arguments of kprobe events."""

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
    """Every method is for control context unless it says otherwise.

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
        """Within it, put off what text writes can share; it nests.

        That is the dropping of translated code, and writing the kernel's text: until
        its end machine.read() may show text as it was.  Ask for what stood there
        before any probe what the architecture knows of it, never the memory.
        """

    def arch_init_kprobes(self, core: Core) -> None:
        """Called once, by State: keep the core, hook traps, load the runtime."""

    def arch_within_kprobe_blacklist(self, addr: KAddr) -> bool:
        """Also true for the engine's own guest code: runtime image, stubs."""

    def arch_adjust_kprobe_addr(self, addr: KAddr, offset: int) -> tuple[KAddr, bool]:
        """(address of the probe, whether that is the function's entry)."""

    def arch_prepare_kprobe(self, p: Kprobe) -> None:
        """Check the instruction, copy it to a slot and analyse it.

        Sets p.opcode, p.ainsn and p.site.  When it raises, nothing is left allocated.
        EILSEQ: not an instruction boundary; EINVAL: an instruction that cannot be
        probed (int3, BUG site, refused kinds); ENOMEM: no slot.
        """

    def arch_remove_kprobe(self, p: Kprobe) -> None:
        """Give back slot, site and stub, for use after a quiescent state.

        The text is not touched: it is disarmed, or is gone.  A second call for the
        same ainsn does nothing.
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
        (or p itself) that has no kp_handler yet gets one, zeroed: p.handler.
        """

    def release_handler(self, p: Kprobe) -> None:
        """Give back p's kp_handler, for use after a quiescent state.

        p is one probe that is on no list any more, never an aggr_kprobe.
        """

    def hits(self, p: Kprobe) -> int:
        """How often the address of an entry of kprobe_table was hit, missed or not."""

    def nmissed(self, p: Kprobe) -> int:
        """How often one registered probe (never an aggr_kprobe) was missed."""

    def text_listing(self, start: KAddr, end: KAddr) -> str:
        """Live disassembly with breakpoints, jumps, slots and detour buffers."""
