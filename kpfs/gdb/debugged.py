# SPDX-License-Identifier: GPL-2.0-or-later
"""The protocol Debugged: what a debugger needs of a kernel, for each kind of kernel.

A debugger stops the kernel in one of two ways. Either the thread that runs the kernel
calls it, at a breakpoint (``stops``) or between two turns (``call_between_turns()``),
and stands there, with the kernel's lock. Or nothing runs, and the debugger takes the
lock itself. Everything else here is called while the kernel is stopped so.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kpfs.base.errors import KernelError, MemoryFault
from kpfs.base.units import PAGE_SIZE

if TYPE_CHECKING:
    from kpfs.base.lock import FairLock
    from kpfs.emulator.stops import Stops

GoBack = Callable[[], None]
FIRST_TASK = 1000  # what a task's number is above its pid


class RunState(Enum):
    """The state of a thread."""

    RUNS = "running"
    OFF = "off"
    SLEEPS = "sleeping"


class DebugThread(NamedTuple):
    """A processor, or a task that none runs."""

    number: int  # from 1 on for processors, FIRST_TASK + pid for tasks
    cpu: int  # -1: a task
    pid: int  # the task's, or that of the processor's task; 0: it idles
    comm: str
    state: RunState
    task: int = 0  # address of its struct task_struct, if it is in the list of tasks

    @property
    def name(self) -> str:
        """The words by which users know it."""
        what = f"{self.comm}/{self.pid}" if self.pid else "idle"
        if self.state is RunState.OFF:
            what = "off"
        return what if self.cpu < 0 else f"CPU {self.cpu}: {what}"


class HostClock(Protocol):
    """A clock of the kernel that follows the host's."""

    host: Callable[[], int]  # returns the host's time in ns

    def read_host_by(self, host: Callable[[], int]) -> None:
        """Have the host's time read by another function."""


class Command(NamedTuple):
    """A command of a debugger's user."""

    help: str
    call: Callable[[], str]  # returns what it says; KernelError
    at_rest: bool = False  # it can only be done while nothing runs


class DebugModule(NamedTuple):
    """A loaded module."""

    name: str
    sections: dict[str, int]  # addresses by the names of sections
    has_file: bool = False  # module_file() has it


class Debugged(Protocol):
    """A kernel as a debugger sees it."""

    arch: str  # name of the architecture: x86, arm64, riscv64

    @property
    def lock(self) -> FairLock:
        """The kernel's lock."""

    @property
    def release(self) -> str:
        """The kernel's release."""

    def vmlinux(self) -> bytes:
        """Return the kernel's ELF file, with all that is known for debuggers.

        Contents of memory may be missing, as debuggers read them by read().
        """

    def modules(self) -> Sequence[DebugModule]:
        """Return the loaded modules."""

    def module_file(self, name: str) -> bytes:
        """Return the file of a module, likewise; KeyError: it is not known."""

    def commands(self) -> Mapping[str, Command]:
        """Return the commands of a debugger's user, by their names."""

    def keep(self) -> GoBack:
        """Return a function that brings the kernel back to this moment.

        To mounts and mirrored processes that is a reboot.  KernelError, also of the
        function: it cannot.  Context, also of the function: nothing runs, lock held.
        """

    # ---- whether it runs
    @property
    def clock(self) -> HostClock | None:
        """The clock by which the kernel knows the host's time within a run."""

    @property
    def stops(self) -> Stops:
        """The places, steps and accesses at which the running machine stops."""

    def see_all(self, wanted: bool) -> None:
        """Have all calls of mirrored processes be made, or those that can be seen."""

    def catch_up(self) -> None:
        """Make the calls that were left out.  Context: nothing runs, lock held."""

    def call_between_turns(self, call: Callable[[], None] | None) -> None:
        """Have the thread that runs the kernel call this soon.  Context: any thread.

        The call comes at an exact instruction, from the run that is under way or the
        next one, and again between all turns until there is None.
        """

    def follow(self, replaced: Callable[[], None]) -> None:
        """Call replaced, under the lock, when another machine has taken over."""

    # ---- threads and registers
    @property
    def current(self) -> int:
        """The number of the processor that runs."""

    def threads(self) -> Sequence[DebugThread]:
        """Return the processors, then the tasks that none of them runs."""

    def processors(self) -> Sequence[DebugThread]:
        """Return the processors, without their tasks: no list is walked for them."""

    def registers(self, thread: DebugThread) -> dict[str, int]:
        """Return the registers that are known, by gdb's names."""

    def register(self, name: str) -> int:
        """Return a register of the processor that runs; KeyError: it is not known."""

    def set_register(self, thread: DebugThread, name: str, value: int) -> None:
        """Write a register; KeyError: it cannot be written."""

    # ---- memory
    def read(self, address: int, size: int) -> bytes:
        """Read by the page tables of the processor that runs; MemoryFault."""

    def original(self, address: int, size: int) -> bytes:
        """Read text without what probes have put there; MemoryFault."""

    def physical(self, address: int) -> int:
        """Return the physical address of a byte; MemoryFault."""

    def write(self, address: int, data: bytes) -> None:
        """Write in the same way, also into text; MemoryFault, and nothing changes."""


def kept_by_nobody() -> GoBack:
    """Refuse to keep a kernel's state."""
    raise KernelError(errno.EOPNOTSUPP, "this kernel cannot go back")


def read_some(debugged: Debugged, address: int, size: int) -> bytes:
    """Read up to the first page that is missing; MemoryFault: that is the first one."""
    found = b""
    while len(found) < size:
        at = address + len(found)
        count = min(size - len(found), PAGE_SIZE - at % PAGE_SIZE)
        try:
            found += debugged.read(at, count)
        except MemoryFault:
            if not found:
                raise
            break
    return found
