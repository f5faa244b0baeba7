# SPDX-License-Identifier: GPL-2.0-or-later
"""One kernel: the guest, the engine on it, and the lock that both are used under.

What is not needed to answer the first request is built when it is first asked for.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from kpfs import abi
from kpfs.config import Config
from kpfs.engine.errors import KernelError
from kpfs.guest.kernel.hostop import HostOp
from kpfs.guest.kernel.syscalls import BLOCKED, HostTask
from kpfs.guest.machine import Guest
from kpfs.module_support import ModuleSupport

if TYPE_CHECKING:
    from kpfs.engine.state import State
    from kpfs.engine.trace.dynevent import TraceState
    from kpfs.engine.trace.probe.trace_kprobe import TraceKprobeOps
    from kpfs.engine.trace.synth.trace_events_synth import TraceSynthOps
    from kpfs.event_dirs import EventDirs

log = logging.getLogger(__name__)

# What a file of the mount does in the middle of a system call: its result, or the bytes
# that were read.  The guest's request may be answered further (cookie, pos).
Op = Callable[["HostOp"], "int | bytes"]
NSEC = 1_000_000_000
DEFAULTS = Config()


class Caller(NamedTuple):
    """Who makes an operation on the mount: FUSE's context, of the host."""

    pid: int  # of the thread; 0 for one outside our pid namespace
    uid: int
    gid: int


def _no_files(_request: HostOp) -> int:
    raise KernelError(errno.ENOENT, "there is no tree")


class Kernel:
    """The composition root.  ``lock`` is held for whatever touches what is below.

    ``on_wake``, if set, is called under the lock when something may have become
    readable.
    """

    def __init__(
        self, *, nr_cpus: int = 2, quiet: bool = False, config: Config = DEFAULTS
    ) -> None:
        """quiet: no background tasks and a virtual clock, so that runs repeat."""
        self.lock = threading.RLock()
        self.config = config
        ftrace = config.on("KPROBES_ON_FTRACE")
        self.guest = Guest(nr_cpus, quiet=quiet, dynamic_ftrace=ftrace)
        self.on_wake: Callable[[], None] | None = None
        # serves the files of the mount to system calls that nobody made through it
        self.host_files: Op = _no_files
        self.guest.syscalls.default_host_op = lambda request: self.host_files(request)
        self._standing: list[HostTask] = []  # tasks within a file's operation
        self.module_support = ModuleSupport(self)
        self._state: State | None = None
        self._trace: TraceState | None = None
        self._kprobe_events: TraceKprobeOps | None = None
        self._synthetic_events: TraceSynthOps | None = None
        self._changed = threading.Condition(self.lock)
        self._waiters = 0
        self._ticker: threading.Thread | None = None
        self._tick_at: int | None = None  # guest time at which the ticker wakes up
        self._wake_ticker = threading.Event()
        self._stopped = self._closed = False
        self._nr_syscalls = 0
        self._busy = 0  # ns in system calls

    # ---- the parts, each built when it is first asked for, with the lock held or not
    @property
    def state(self) -> State:
        """The kprobes core."""
        if self._state is None:
            with self.lock:
                self._state = self._state or self._make_state()
        return self._state

    @property
    def trace(self) -> TraceState:
        """What the files of tracefs are about."""
        if self._trace is None:
            with self.lock:
                self._trace = self._trace or self._make_trace()
        return self._trace

    @property
    def kprobe_events(self) -> TraceKprobeOps:
        """The kprobe events among the dynamic events."""
        if self._kprobe_events is None:
            with self.lock:
                self._kprobe_events = self._kprobe_events or self._make_kprobe_events()
        return self._kprobe_events

    @property
    def synthetic_events(self) -> TraceSynthOps:
        """The synthetic events among the dynamic events."""
        if self._synthetic_events is None:
            with self.lock:
                self._synthetic_events = (
                    self._synthetic_events or self._make_synthetic_events()
                )
        return self._synthetic_events

    @property
    def dynamic_events(self) -> TraceState:
        """trace, with all kinds of dynamic events that are configured."""
        if self.config.on("KPROBE_EVENTS"):
            _ = self.kprobe_events
        _ = self.synthetic_events
        return self.trace

    @cached_property
    def event_dirs(self) -> EventDirs:
        """What the guest knows of the directories of events."""
        from kpfs.event_dirs import EventDirs

        return EventDirs(self.guest)

    def parts_built(self) -> tuple[State | None, TraceKprobeOps | None]:
        """state and kprobe_events, None where nobody has asked for them yet."""
        return self._state, self._kprobe_events

    def trace_built(self) -> TraceState | None:
        """Likewise trace."""
        return self._trace

    def _make_state(self) -> State:
        from kpfs.engine.arch.arches import ARCHES
        from kpfs.engine.state import State

        return State(
            *(self.guest, ARCHES[self.guest.arch](self.guest)),
            optprobes=self.config.on("OPTPROBES"),
            kprobes_on_ftrace=self.config.on("KPROBES_ON_FTRACE"),
        )

    def _make_trace(self) -> TraceState:
        from kpfs.engine.trace.dynevent import TraceState

        # the architecture's, for it is its code that runs in the guest
        arch: Any = self.state.arch
        trace = TraceState(self.state, arch.runtime)
        trace.events.watcher = self.event_dirs
        return trace

    def _make_kprobe_events(self) -> TraceKprobeOps:
        from kpfs.engine.trace.probe.trace_kprobe import TraceKprobeOps

        return TraceKprobeOps(self.trace)

    def _make_synthetic_events(self) -> TraceSynthOps:
        from kpfs.engine.trace.synth.trace_events_synth import TraceSynthOps

        return TraceSynthOps(self.trace)

    # ---- system calls
    def task(self, caller: Caller) -> HostTask:
        """The caller's task in the guest, forked there if it is new.

        Context: control, lock held.
        """
        self._check()
        return self.guest.syscalls.host_task(caller.pid, caller.uid)

    def _check(self) -> None:
        if self._closed:  # a thread of the mount that came too late
            raise KernelError(errno.ESHUTDOWN, "the guest is gone")

    def syscall(
        self,
        task: HostTask,
        name: str,
        *args: int | str | bytes,
        op: Op | None = None,
    ) -> int:
        """A system call of a task in the guest; its value.

        op is run where the call reaches a file of the mount; what it raises, or any
        other failure of the call, is raised here.  Context: control, lock held.
        """

        def host_op(request: HostOp) -> int | bytes:
            if request.kind == abi.HOST_GETATTR:
                return 0
            self._standing.append(task)
            try:
                return op(request) if op else self.host_files(request)
            finally:
                self._standing.pop()

        self._check()
        begin = time.perf_counter_ns()
        ret = self.guest.syscalls.call(task, name, *args, host_op=host_op)
        self._nr_syscalls += 1
        self._busy += time.perf_counter_ns() - begin
        self.guest_ran()
        return self._result(ret, name)

    def nested_syscall(self, name: str, *args: int | str | bytes) -> int:
        """A system call by the task that stands in a file's operation, in its middle.

        Raises what the call fails with.  Context: control, lock held.
        """
        ret = self.guest.syscalls.call(
            self._standing[-1], name, *args, host_op=self.host_files
        )
        return self._result(ret, name)

    def _result(self, ret: int, name: str) -> int:
        if ret == BLOCKED:
            raise KernelError(errno.EINTR, f"{name}() sleeps")
        if ret < 0:
            refusal = self.guest.syscalls.refusal
            why = refusal.why if refusal and refusal.errno == -ret else "failed"
            raise KernelError(-ret, f"{name}(): {why}")
        return ret

    def insmod(self, image: bytes, parameters: bytes) -> None:
        """init_module() by the task that stands in a file's operation.

        Raises what it is refused with.  Context: control, lock held.
        """
        pid, pending = self._standing[-1].pid, self.guest.modules.pending
        pending[pid] = image
        try:
            self.nested_syscall("init_module", 0, len(image), parameters)
        finally:
            pending.pop(pid, None)

    def caller_pid(self) -> int:
        """The host's process that makes the operation that a file is in.

        Context: control, lock held.
        """
        return self.guest.syscalls.host_pid(self._standing[-1])

    def stats(self) -> dict[str, int]:
        """Counters of the machine."""
        return {
            "syscalls": self._nr_syscalls,
            "host_us_in_syscalls": self._busy // 1000,
            **self.guest.stats(),
        }

    # ---- waiting
    def guest_ran(self) -> None:
        """Tell those who wait for something to run in the guest.

        To be called with the lock held by who has let it run.
        """
        if self._waiters:
            self._changed.notify_all()
        if self.on_wake is not None:
            self.on_wake()
        if self._ticker is not None and not self._wake_ticker.is_set():
            deadline = self.guest.next_deadline()
            if deadline is not None and (
                self._tick_at is None or deadline < self._tick_at
            ):
                self._wake_ticker.set()

    def wait(self, seconds: float) -> None:
        """Give up the lock until something ran in the guest, or for so long."""
        self._waiters += 1
        try:
            self._changed.wait(seconds)
        finally:
            self._waiters -= 1

    # ---- background
    def start(self) -> None:
        """Let time pass for the guest: run what it has to do in the background."""
        self._ticker = threading.Thread(target=self._tick, name="tick", daemon=True)
        self._ticker.start()

    def _tick(self) -> None:
        """The ticker: runs the guest when something is due, sleeps in between."""
        wake = self._wake_ticker
        while not self._stopped:
            with self.lock:
                wake.clear()
                seconds = self._run_due()
            if seconds is None or seconds > 0:
                wake.wait(seconds)

    def _run_due(self) -> float | None:
        """Run what is due; the seconds until something is again, None: never."""
        guest = self.guest
        try:
            deadline = guest.next_deadline()
            if deadline is not None and deadline <= guest.clock.now():
                guest.tick()
                self.guest_ran()
                deadline = guest.next_deadline()
        except Exception:
            log.exception("the guest's background work failed")
            self._stopped = True
            return None
        self._tick_at = deadline
        return None if deadline is None else (deadline - guest.clock.now()) / NSEC

    def stop(self) -> None:
        """End the guest; nothing of this kernel may be used afterwards."""
        with self.lock:
            self._stopped = True
            self._wake_ticker.set()
        if self._ticker is not None:
            self._ticker.join()
        with self.lock:
            self._closed = True
            self.guest.close()
