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
from kpfs.engine.errors import KernelError

if TYPE_CHECKING:
    from kpfs.api.probes import PostHandler, PreHandler, Probe, ReturnHandler
    from kpfs.api.real import RealBackend, RealSession
    from kpfs.api.records import Record
    from kpfs.api.snapshot import Snapshot
    from kpfs.engine.ktypes import Symbol
    from kpfs.guest.kernel.klog import LogRecord
    from kpfs.kernel.root import Kernel as Root

DEFAULT_CPUS = 2
DEFAULT_COMM = "python"
WARNING = 4  # kernel: LOGLEVEL_WARNING
STRING_MAX = 4096
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_FUNCTIONS = "tTwW"  # types of symbols


class _AsBuilt:
    """The tables of a kernel that runs, and its text without what probes have put in.

    See kpfs.engine.judge.Tables.
    """

    def __init__(self, root: Root) -> None:
        self.kallsyms, self.text = root.guest.kallsyms, root.guest.text
        self.read = root.arch.original_text


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

        cpus: 1 to 16.  config: as of ``--config``, for example ``{"PREEMPT": False}``.
        kernel: the name of a real one that was made (``kpfs kernel make``); that has
        its files, tasks, log and clock, and for all else NotImplementedError.
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
            from kpfs.api.real import RealSession

            self._any = RealSession(kernel, quiet=quiet)
        self._backend = self._as_task(self._free_pid(), DEFAULT_COMM)
        self.clock = Clock(self._any)

    @property
    def _session(self) -> Session:
        if not isinstance(self._any, Session):
            raise NotImplementedError("our own kernel has that, a real one has not")
        return self._any

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it; whatever it is asked for afterwards is a ValueError."""
        self._any.close()

    # ---- snapshots
    def snapshot(self) -> Snapshot:
        """What the kernel is now, to go back to: memory, CPUs, probes and trace.

        ValueError: it is not quiet, so that time and tasks go on by themselves.
        """
        from kpfs.api.snapshot import Snapshot

        if not self._session.root.guest.quiet:
            raise ValueError("only a quiet guest stands still for a snapshot")
        with self._session.call(), self._session.root.lock:
            return Snapshot(self._session)

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot of this kernel; ValueError: it is another one's.

        Tasks and probes that have come since are gone, and those that were there then
        can be used again.  What handlers have done to objects of theirs stays.
        """
        if snapshot.session is not self._session:
            raise ValueError("that is a snapshot of another kernel")
        with self._session.call(), self._session.root.lock:
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

        parameters: those of the module.  OSError: it is refused; the text has what the
        kernel's log says.
        """
        from kpfs.fs.files.insmod import SHIPPED

        name = os.fspath(module)
        path = f"{SHIPPED}/{name}.ko" if _NAME.fullmatch(name) else name
        with open(path, "rb") as file:
            image = file.read()
        words = " ".join(f"{key}={_word(value)}" for key, value in parameters.items())
        session, log = self._session, self._session.root.guest.log
        since = max((record.seq for record in log.records()), default=-1) + 1
        with session.call(name):
            try:
                with session.root.lock:
                    task = self._own.host_task()
                session.root.syscalls.insmod(task, image, os.fsencode(words))
            except KernelError as refused:
                said = [r for r in log.records(since) if r.level <= WARNING]
                why = os.fsdecode(bytes(said[-1].text)) if said else refused.why
                raise KernelError(refused.errno, why) from None

    def rmmod(self, name: str) -> None:
        """Unload a module."""
        self.write("machine/rmmod", name)

    @property
    def _own(self) -> OwnBackend:
        assert isinstance(self._backend, OwnBackend)
        return self._backend

    # ---- what it shows
    def trace(self, instance: str = "") -> Iterator[Record]:
        """The records of the trace, oldest first, as they are now; none is consumed.

        instance: a directory of tracing/instances.  OSError: ENOENT, there is none.
        """
        from kpfs.api.reader import records

        session = self._session
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
        from kpfs.engine.ktypes import KAddr

        with self._session.call(symbol), self._session.root.lock:
            found = self._function(symbol)
            end = KAddr(found.addr + found.size)
            return self._session.root.state.arch.text_listing(found.addr, end)

    def explain(self, symbol: str | int, offset: int = 0) -> Explanation:
        """Whether a probe would be accepted at a place, and become a jump, and why.

        The checks are those of registration; nothing is changed, and no code run.
        """
        from kpfs.engine.arch.arches import JUDGES
        from kpfs.explain.command import Explainer

        place = hex(symbol) if isinstance(symbol, int) else symbol
        point = f"{place}+{offset:#x}" if offset else place
        with self._session.call(), self._session.root.lock:
            root = self._session.root
            judge = JUDGES[root.guest.arch](_AsBuilt(root))
            verdict, text = Explainer(root.state, judge).explain(point)
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
        from kpfs.api.probes import make_kprobe

        return make_kprobe(self._session, symbol, offset, pre, post)

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
        from kpfs.api.probes import make_kretprobe

        return make_kretprobe(self._session, symbol, handler, entry, maxactive)

    # ---- memory, also for handlers
    def symbol(self, name: str) -> int:
        """The address of a symbol; OSError: ENOENT, there is none."""
        found = self._session.root.guest.kallsyms.lookup_name(name)
        if not found:
            raise FileNotFoundError(errno.ENOENT, "no such symbol", name)
        return found[0].addr

    def _function(self, name: str) -> Symbol:
        for found in self._session.root.guest.kallsyms.lookup_name(name):
            if found.type in _FUNCTIONS and found.size:
                return found
        raise KernelError(errno.ENOENT, "no such function")

    def read_memory(self, address: int, size: int) -> bytes:
        """Bytes of the kernel's memory, or of a task's.

        In a handler a place that is not mapped is the kernel's MemoryFault, as it is
        for a handler in C; elsewhere it is OSError, EFAULT.
        """
        return self._session.memory(
            lambda: self._session.root.guest.read(address, size)
        )

    def write_memory(self, address: int, data: bytes) -> None:
        """Change bytes of memory; see read_memory()."""
        self._session.memory(lambda: self._session.root.guest.write(address, data))

    def read_string(self, address: int, size: int = STRING_MAX) -> str:
        """The text at an address up to its NUL, of at most size bytes."""
        return os.fsdecode(
            self._session.memory(
                lambda: self._session.root.guest.read_cstring(address, size)
            )
        )


def _word(value: int | str | bool) -> str:
    """The value of a module's parameter, as insmod is given it."""
    if isinstance(value, bool):
        return "Y" if value else "N"
    text = str(value)
    return f'"{text}"' if re.search(r"\s", text) else text


def _line(record: LogRecord) -> str:
    seconds, us = divmod(record.ts_nsec // 1000, 1_000_000)
    return f"[{seconds:5d}.{us:06d}] {os.fsdecode(bytes(record.text))}\n"
