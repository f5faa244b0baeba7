# SPDX-License-Identifier: GPL-2.0-or-later
"""A kernel in this process: its files, tasks, trace, probes and clock as methods."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kpfs.api.clock import Clock
from kpfs.api.files import Files, Task
from kpfs.api.own import OwnBackend
from kpfs.api.session import Session
from kpfs.base.errors import KernelError

if TYPE_CHECKING:
    from kpfs.api.probes import PostHandler, PreHandler, Probe, ReturnHandler
    from kpfs.api.real import RealBackend
    from kpfs.api.real_session import RealSession, RealSnapshot
    from kpfs.api.records import Record
    from kpfs.api.snapshot import Snapshot
    from kpfs.guest.running.klog import LogRecord

DEFAULT_CPUS = 2
DEFAULT_COMM = "python"
STRING_MAX = 4096
_NAME = re.compile(r"[A-Za-z0-9_-]+")


class Explanation(NamedTuple):
    """What becomes of a probe at a place, and why."""

    accepted: bool
    errno: int  # that registration answers; 0: accepted
    optimized: bool  # it becomes a jump
    ftrace: bool  # it is a call at the function's entry
    why: str  # it is refused, or does not become a jump; "": neither
    text: str  # all of it in words, with the instructions concerned

    def __str__(self) -> str:
        return self.text


class Kernel(Files):
    """An emulated kernel with its files, booted in this process within some 25 ms.

    Several can live at once.  As a context manager it is closed at the end.
    """

    _backend: OwnBackend | RealBackend

    def __init__(
        self,
        *,
        cpus: int = DEFAULT_CPUS,
        config: Mapping[str, bool | str] | None = None,
        kernel: str = "",
        quiet: bool = True,
    ) -> None:
        """Boot it.

        cpus: 1 to 16; a real one has those that it was made with.
        config: as of ``--config``, for example ``{"PREEMPT": False}``.
        kernel: the name of a real one that was made (``kpfs kernel make``).
        quiet: nothing runs but what is asked for, on virtual time, so that the same
        operations give the same trace; else programs run in the background, and time
        is the host's.
        """
        self._any: Session | RealSession
        if not kernel:
            self._any = Session(cpus, config or {}, quiet=quiet)
        elif config:
            raise ValueError("config is for our own kernel, and kernel names another")
        else:
            from kpfs.api.real_session import RealSession

            self._any = RealSession(kernel, quiet=quiet)
        self._backend = self._as_task(self._free_pid(), DEFAULT_COMM)
        self.clock = Clock(self._any)

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it; whatever it is asked for afterwards is a ValueError."""
        self._any.close()

    # ---- snapshots
    def snapshot(self) -> Snapshot | RealSnapshot:
        """What the kernel is now, to go back to: memory, CPUs, probes and trace.

        ValueError: it is not quiet, so that time and tasks go on by themselves, or a
        task of a real kernel waits.
        """
        if not self._any.quiet:
            raise ValueError("only a quiet guest stands still for a snapshot")
        if not isinstance(self._any, Session):
            return self._any.snapshot()
        from kpfs.api.snapshot import Snapshot

        with self._any.call(), self._any.root.lock:
            return Snapshot(self._any)

    def restore(self, snapshot: Snapshot | RealSnapshot) -> None:
        """Go back to a snapshot of this kernel; ValueError: it is another one's.

        Tasks and probes that have come since are gone, and those that were there then
        can be used again.  What handlers have done to objects of theirs stays.
        """
        if snapshot.session is not self._any:
            raise ValueError("that is a snapshot of another kernel")
        if not isinstance(self._any, Session):
            self._any.do("", snapshot.restore)
            return
        with self._any.call(), self._any.root.lock:
            snapshot.restore()

    # ---- tasks
    def task(self, pid: int | None = None, comm: str = "task", uid: int = 0) -> Task:
        """A task that is forked now, or has been forked with this pid before.

        pid: None for one that is free.
        """
        if pid is None:
            pid = self._free_pid()
        elif not 1 < pid < 1 << 22:
            raise ValueError(f"{pid} is no pid of a task")
        backend = self._as_task(pid, comm, uid)
        return Task(backend, pid, comm, backend.end)

    def _as_task(self, pid: int, comm: str, uid: int = 0) -> OwnBackend | RealBackend:
        if isinstance(self._any, Session):
            return OwnBackend(self._any, pid, comm, uid)
        from kpfs.api.real import RealBackend

        return RealBackend(self._any, pid, comm, uid)

    def _free_pid(self) -> int:
        self._any.next_pid += 1
        return self._any.next_pid - 1

    # ---- modules
    def insmod(
        self, module: str | os.PathLike[str], **parameters: int | str | bool
    ) -> None:
        """Load a module: a file of the host, or by its name one that comes with kpfs.

        Of a real kernel the name is that of a module of its package, which is loaded
        after those that it needs.  parameters: those of the module.  OSError: it is
        refused; the text has what the kernel's log says.
        """
        name = os.fspath(module)
        words = " ".join(f"{key}={_word(value)}" for key, value in parameters.items())
        self._backend.insmod(
            name, os.fsencode(words), named=bool(_NAME.fullmatch(name))
        )

    def rmmod(self, name: str) -> None:
        """Unload a module."""
        self._backend.rmmod(name)

    # ---- what it shows
    def trace(self, instance: str = "") -> Iterator[Record]:
        """The records of the trace, oldest first, as they are now; none is consumed.

        instance: a directory of tracing/instances.  OSError: ENOENT, there is none.
        Those of a real kernel are read out of its memory, and have no text.
        """
        session = self._any
        if not isinstance(session, Session):
            from kpfs.api.real_reader import records as records_of

            kernel = session.kernel
            return iter(session.do(instance, lambda: records_of(kernel, instance)))
        from kpfs.api.reader import records

        with session.call(f"tracing/instances/{instance}"), session.root.lock:
            trace = session.root.trace
            if instance and instance not in trace.instances:
                raise KernelError(errno.ENOENT)
            return iter(list(records(trace.instances[instance] if instance else trace)))

    def dmesg(self) -> str:
        """The kernel's log, as dmesg prints it; no code of ours is run for it."""
        if not isinstance(self._any, Session):
            from kpfs.api.commands import as_dmesg

            return as_dmesg(self.read("kmsg"))
        self._any.check()
        return "".join(map(_line, self._any.root.guest.log.records()))

    def disassemble(self, symbol: str) -> str:
        """A function's text as it stands, with what probes have put there.

        OSError: ENOENT, there is no such function.
        """
        return self._any.disassemble(symbol)

    def explain(self, symbol: str | int, offset: int = 0) -> Explanation:
        """Whether a probe would be accepted at a place, and become a jump, and why.

        The checks are those of registration; nothing is changed, and no code run.
        """
        place = hex(symbol) if isinstance(symbol, int) else symbol
        verdict, text = self._any.explain(f"{place}+{offset:#x}" if offset else place)
        jump = verdict.jump
        return Explanation(
            accepted=not verdict.errno,
            errno=verdict.errno,
            optimized=verdict.tag == "OPTIMIZED",
            ftrace=verdict.ftrace,
            why=verdict.why or (jump.why_not if jump else ""),
            text=text,
        )

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
        What they raise is raised by the method that ran the kernel.
        """
        session = self._any
        if isinstance(session, Session):
            from kpfs.api.own_probes import make_kprobe

            return make_kprobe(session, symbol, offset, pre, post)
        from kpfs.api.probes import Probe
        from kpfs.api.real_probes import RealProbe

        handlers = {"pre_handler": pre, "post_handler": post}
        return Probe(RealProbe(session, symbol, offset, handlers))

    def kretprobe(
        self,
        symbol: str | int,
        handler: ReturnHandler | None = None,
        *,
        entry: PreHandler | None = None,
        maxactive: int = 0,
    ) -> Probe:
        """Register a return probe of a function.

        handler(regs) is called when it has returned: regs.ax is the value.  entry(regs)
        is called when it is entered; if it returns non-zero, this call's return is not
        looked at.  maxactive: of how many calls at once, 0: the kernel's default.
        """
        session = self._any
        if isinstance(session, Session):
            from kpfs.api.own_probes import make_kretprobe

            return make_kretprobe(session, symbol, handler, entry, maxactive)
        from kpfs.api.probes import Probe
        from kpfs.api.real_probes import RealProbe

        handlers = {"handler": handler, "entry_handler": entry}
        return Probe(RealProbe(session, symbol, 0, handlers, maxactive))

    # ---- memory, also for handlers
    def symbol(self, name: str) -> int:
        """The address of a symbol; OSError: ENOENT, there is none."""
        address = self._any.symbol(name)
        if not address:
            raise FileNotFoundError(errno.ENOENT, "no such symbol", name)
        return address

    def read_memory(self, address: int, size: int) -> bytes:
        """Bytes of the kernel's memory, or of a task's.

        In a handler a place that is not mapped is the kernel's MemoryFault, as it is
        for a handler in C; elsewhere it is OSError, EFAULT.
        """
        return self._any.read_memory(address, size)

    def write_memory(self, address: int, data: bytes) -> None:
        """Change bytes of memory; see read_memory()."""
        self._any.write_memory(address, data)

    def read_string(self, address: int, size: int = STRING_MAX) -> str:
        """The text at an address up to its NUL, of at most size bytes."""
        return os.fsdecode(self._any.read_string(address, size))


def _word(value: int | str | bool) -> str:
    """The value of a module's parameter, as insmod is given it."""
    if isinstance(value, bool):
        return "Y" if value else "N"
    text = str(value)
    return f'"{text}"' if re.search(r"\s", text) else text


def _line(record: LogRecord) -> str:
    seconds, us = divmod(record.ts_nsec // 1000, 1_000_000)
    return f"[{seconds:5d}.{us:06d}] {os.fsdecode(bytes(record.text))}\n"
