# SPDX-License-Identifier: GPL-2.0-or-later
"""An emulated kernel in this process: its files, tasks, trace, probes and clock."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping

from kpfs.base import limits
from kpfs.base.loading import load
from kpfs.base.typed import TYPE_CHECKING, NamedTuple
from kpfs.base.units import DEFAULT_CPUS
from kpfs.session.files import FileAccess, Task
from kpfs.session.probes import ProbeDefinition

if TYPE_CHECKING:
    from kpfs.api.drgn_program import Program, StackTrace
    from kpfs.coverage.report import Report
    from kpfs.gdb.server import Server
    from kpfs.session.probes import PostHandler, PreHandler, Probe, ReturnHandler
    from kpfs.session.records import Record
    from kpfs.session.session import Session, Snapshot

DEFAULT_COMM = "python"
STRING_MAX = 4096
_NAME = r"[A-Za-z0-9_-]+"


class Explanation(NamedTuple):
    """The verdict on a probe at one place, with its reason."""

    accepted: bool
    errno: int  # registration's answer; 0: accepted
    optimized: bool  # it becomes a jump
    ftrace: bool  # it is a call at the function's entry
    why: str  # it is refused, or does not become a jump; "": neither
    text: str  # all of it in words, with the instructions concerned

    def __str__(self) -> str:
        return self.text


class KernelClock:
    """The kernel's time: virtual if the kernel is quiet, else the host's."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def now(self) -> float:
        """Return the seconds since the kernel booted."""
        return self._session.now()

    def advance(self, seconds: float) -> None:
        """Let that many seconds pass at once, with all that is due in them.

        Timers run, probes that wait for optimization become jumps, sleeping tasks wake.
        ValueError: the kernel is not quiet, so its time is the host's.
        """
        if not self._session.quiet:
            raise ValueError("only the clock of a quiet kernel can be advanced")
        if seconds < 0:
            raise ValueError("time does not go back")
        self._session.advance(seconds)


class Kernel(FileAccess):
    """An emulated kernel with its files, booted in this process within some 25 ms.

    Several can live at once.  As a context manager it is closed at the end.
    """

    def __init__(
        self,
        *,
        cpus: int = DEFAULT_CPUS,
        config: Mapping[str, bool | str] | None = None,
        kernel: str = "",
        quiet: bool = True,
    ) -> None:
        """Boot it.

        cpus: 1 to 16, of the guest kernel; a Linux kernel has those that it was made
        with.
        config: of the guest kernel, as ``--config``: ``{"PREEMPT": False}``.
        kernel: the name of a Linux kernel that was made (``kpfs kernel make``).
        quiet: nothing runs but what is asked for, on virtual time, so that the same
        operations give the same trace; else programs run in the background, and time
        is the host's.
        """
        self._session = _start(kernel, cpus, config or {}, quiet=quiet)
        self._task = self._session.task(self._free_pid(), DEFAULT_COMM)
        self.clock = KernelClock(self._session)
        self._gdb: Server | None = None

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the kernel; every use of it afterwards is a ValueError."""
        if self._gdb is not None:
            self._gdb.close()
        self._session.close()

    def gdb(self, address: str) -> None:
        """Let gdb attach at a path, or at 127.0.0.1:PORT, until the kernel is closed.

        A thread that runs the kernel stands where gdb stops it.  ValueError: it listens
        already.  SetupError: it cannot listen there.
        """
        from kpfs.gdb.server import GdbAddress, Server

        if self._gdb is not None:
            raise ValueError("gdb can attach already")
        self._gdb = Server(self._session.debugged(), [GdbAddress(address)])
        self._gdb.start()
        self._gdb.open()

    # ---- snapshots
    def snapshot(self) -> Snapshot:
        """Return the state of the kernel, to go back to: memory, CPUs, probes, trace.

        ValueError: the kernel is not quiet, so that time and tasks go on by themselves,
        or a task of a Linux kernel waits.
        """
        if not self._session.quiet:
            raise ValueError("only a quiet kernel stands still for a snapshot")
        return self._session.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot of this kernel; ValueError: it is another one's.

        Tasks and probes that have come since are gone, and those that were there then
        can be used again.  Objects of the user that handlers have changed stay as they
        are.
        """
        if snapshot.session is not self._session:
            raise ValueError("that is a snapshot of another kernel")
        self._session.restore(snapshot)

    # ---- tasks
    def task(self, pid: int | None = None, comm: str = "task", uid: int = 0) -> Task:
        """Return the task with this pid, which is forked if there is none yet.

        pid: None for one that is free.
        """
        if pid is None:
            pid = self._free_pid()
        elif not 1 < pid < 1 << 22:
            raise ValueError(f"{pid} is no pid of a task")
        return Task(self._session.task(pid, comm, uid), pid, comm)

    def _free_pid(self) -> int:
        self._session.next_pid += 1
        return self._session.next_pid - 1

    # ---- modules
    def insmod(
        self, module: str | os.PathLike[str], **parameters: int | str | bool
    ) -> None:
        """Load a module: a file of the host, or by its name one that comes with kpfs.

        For a Linux kernel the name is that of a module of its package, which is loaded
        after those that it needs.  parameters: the module's.  OSError: the kernel
        refuses it; the text has what its log says.
        """
        import re

        name = os.fspath(module)
        words = " ".join(f"{key}={_word(value)}" for key, value in parameters.items())
        named = bool(re.fullmatch(_NAME, name))
        self._task.insmod(name, os.fsencode(words), named=named)

    def rmmod(self, name: str) -> None:
        """Unload a module."""
        self._task.rmmod(name)

    # ---- what it shows
    def trace(self, instance: str = "") -> Iterator[Record]:
        """Return the records of the trace as it is now, oldest first; none is consumed.

        instance: a directory of tracing/instances.  OSError: ENOENT, there is none.
        Records of a Linux kernel are read out of its memory, and have no text.
        """
        return self._session.records(instance)

    def dmesg(self) -> str:
        """Return the kernel's log as dmesg prints it.  No code of the kernel runs."""
        return self._session.dmesg()

    def lost(self) -> list[str]:
        """Return a line for each thing that was lost, with its cause.

        Missed returns, skipped hits, overwritten records and the like.  A Linux kernel
        begins to count, and to hide from probes what kpfs itself does in it, when this
        is first called.
        """
        return self._session.lost()

    def disassemble(self, symbol: str) -> str:
        """Return a function's text as it stands, with what probes have put there.

        OSError: ENOENT, there is no such function.
        """
        return self._session.disassemble(symbol)

    def explain(self, symbol: str | int, offset: int = 0) -> Explanation:
        """Judge whether a probe would be accepted and become a jump, and why.

        The checks are those of registration.  Nothing changes, and no code runs.
        """
        place = hex(symbol) if isinstance(symbol, int) else symbol
        verdict, text = self._session.explain(
            f"{place}+{offset:#x}" if offset else place
        )
        jump = verdict.jump
        return Explanation(
            accepted=not verdict.errno,
            errno=verdict.errno,
            optimized=verdict.tag == "OPTIMIZED",
            ftrace=verdict.ftrace,
            why=verdict.why or (jump.why_not if jump else ""),
            text=text,
        )

    # ---- debuggers
    def drgn(self, vmlinux: str | os.PathLike[str] = "") -> Program:
        """Return a drgn.Program that reads the kernel's memory as it is.

        The guest kernel's types, variables and stacks are known by its debug
        information, also those of modules that are loaded now.  For a Linux kernel
        drgn needs a vmlinux with debug information, of its package of debug symbols;
        without it there are memory and symbols.  ImportError: the package drgn is
        missing (pip install 'kpfs[drgn]').
        """
        from kpfs.api.drgn_program import make

        return make(self._session, os.fspath(vmlinux))

    def stack_trace(self, program: Program, pid: int) -> StackTrace:
        """Return the stack of a task, running or sleeping, by a program of drgn().

        LookupError: there is no such task.
        """
        from kpfs.api.drgn_program import stack_trace

        return stack_trace(self._session, program, pid)

    # ---- coverage
    def cover(self, *, kernel: bool = False) -> None:
        """Record from now on which functions and lines of modules are reached.

        kernel: those of the kernel, too; of a Linux kernel without lines.  ValueError:
        it is recorded already.  OSError: the kernel does not tell of its modules.
        """
        self._session.cover(of_kernel=kernel)

    def coverage(self) -> Report:
        """Return what was reached since cover(); ValueError before it."""
        return self._session.coverage()

    # ---- probes
    def kprobe(
        self,
        symbol: str | int,
        pre: PreHandler | None = None,
        post: PostHandler | None = None,
        *,
        offset: int = 0,
    ) -> Probe:
        """Register a probe at symbol+offset, or at an address.

        pre(regs) is called before the instruction, post(regs) after it.  They may read
        and write registers and memory, but not run the kernel, which stands there.
        An exception that they raise leaves the method that ran the kernel.
        """
        handlers = {"pre_handler": pre, "post_handler": post}
        return self._session.probe(ProbeDefinition(symbol, offset, handlers))

    def kretprobe(
        self,
        symbol: str | int,
        handler: ReturnHandler | None = None,
        *,
        entry: PreHandler | None = None,
        maxactive: int = 0,
    ) -> Probe:
        """Register a return probe of a function.

        handler(regs) is called when the function has returned; regs.ax is its value.
        entry(regs) is called when it is entered; if that returns non-zero, handler is
        not called for this call.  maxactive: calls that are followed at once; 0: the
        kernel's default.
        """
        handlers = {"handler": handler, "entry_handler": entry}
        return self._session.probe(ProbeDefinition(symbol, 0, handlers, maxactive))

    # ---- memory, also for handlers
    def symbol(self, name: str) -> int:
        """Return the address of a symbol; OSError: ENOENT, there is none."""
        address = self._session.symbol(name)
        if not address:
            raise FileNotFoundError(errno.ENOENT, "no such symbol", name)
        return address

    def read_memory(self, address: int, size: int) -> bytes:
        """Return bytes of the kernel's memory, or of a task's.

        An address that is not mapped is OSError, EFAULT; in a handler it is the
        kernel's MemoryFault, as for a handler in C.
        """
        return self._session.read_memory(address, size)

    def write_memory(self, address: int, data: bytes) -> None:
        """Change bytes of memory; see read_memory()."""
        self._session.write_memory(address, data)

    def read_string(self, address: int, size: int = STRING_MAX) -> str:
        """Return the text at an address up to its NUL, of at most size bytes."""
        return os.fsdecode(self._session.read_string(address, size))


def _start(
    kernel: str, cpus: int, config: Mapping[str, bool | str], *, quiet: bool
) -> Session:
    """Boot the guest kernel, or a Linux kernel by its name; ValueError, SetupError."""
    if not kernel:
        limits.check()
        load("kpfs.backends.guest.session")
        from kpfs.backends.guest.session import GuestSession

        return GuestSession(cpus, config, quiet=quiet)
    if config:
        raise ValueError("config is for the guest kernel, and kernel names another")
    from kpfs.backends.linux.session import LinuxSession
    from kpfs.linux.running import chosen
    from kpfs.linux.store import image

    limits.check(image.read_meta(chosen.folder(kernel)).memory)
    return LinuxSession(kernel, quiet=quiet)


def _word(value: int | str | bool) -> str:
    """Return the value of a module's parameter as insmod takes it."""
    if isinstance(value, bool):
        return "Y" if value else "N"
    text = str(value)
    return f'"{text}"' if any(map(str.isspace, text)) else text
