# SPDX-License-Identifier: GPL-2.0-or-later
"""Requests to tasks of the guest, which run until they are done.

A request is written into the task, an interrupt on its CPU wakes the task, and the CPUs
run until the task says that the request is done.  Meanwhile the task may stop at
HC_HOST_OP, where the code of a file of the mount runs.  If that code makes a request of
its own, the same task serves it, in the middle of its system call.

A thread that makes a request which takes long steps aside from the lock, and another
one makes its own meanwhile (guest/running/sched.py tells how).  So several requests can
be in work, each of a task of its own: whoever wants a task that is busy waits for it.
Whatever thread runs the guest serves what all of them come to.  A request goes to the
CPU that its task belongs to, unless that is held, or runs another request.

Context: control.
"""

from __future__ import annotations

import errno
import struct
import time
from collections.abc import Callable, Sequence
from functools import partial

from kpfs.base import abi
from kpfs.base.abi import REQ_NONE
from kpfs.base.errors import KernelError
from kpfs.guest.emu.memory import Memory
from kpfs.guest.emu.traps import GuestPanicError
from kpfs.guest.running.clock import Clock
from kpfs.guest.running.cpu_states import CpuStates
from kpfs.guest.running.hostop import HostOp, HostOpHandler
from kpfs.guest.running.hosttask import INIT_PID, Arg, HostTask
from kpfs.guest.running.quiescence import Quiescence
from kpfs.guest.running.sched import Sched
from kpfs.guest.running.tasks import TaskTable
from kpfs.guest.running.wakeups import Wakeups

BLOCKED = -512  # the task sleeps for longer than its request is waited for
# How long a call may sleep: on a live machine the lock is held meanwhile.
PATIENCE_NS = 1_000_000_000
QUIET_PATIENCE_NS = 3600 * 1_000_000_000
EXPIRIES_MAX = 2_000  # timers in one wait, as some recur for ever, every 4 ms
# turns after a request on a quiet machine, where time passes with requests only: what
# tasks have to do is done, unless one is busy for long
QUIET_TURNS = 1024
BUSY_PAUSE = 0.0005  # s between looks whether a task is still busy
_REQUEST = abi.KpfsRequest.STRUCT
_RET_AT = abi.KpfsRequest.ret
_NR_AT = abi.KpfsRequest.nr
_I64 = struct.Struct("<q")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class Requests:
    """The tasks that requests were made to, by pid, and what is in work."""

    def __init__(
        self,
        memory: Memory,
        sched: Sched,
        cpus: CpuStates,
        quiescence: Quiescence,
        clock: Clock,
        tasks: TaskTable,
        *,
        wakeups: int,
        resched_entry: int,
    ) -> None:
        """``wakeups`` is the offset in RAM of struct kpfs_wakeups of the first CPU."""
        self._memory = memory
        self._ram, self._ram_at = memory.ram, memory.host_address()
        self._sched, self._cpus, self._quiescence = sched, cpus, quiescence
        self._clock = clock
        self._table = tasks
        self._wakeups = Wakeups(memory, cpus, sched.lockups, wakeups)
        self._resched_entry = resched_entry
        self.tasks: dict[int, HostTask] = {}
        # results of the requests in which tasks ended, by pid
        self.exited: dict[int, int] = {}
        # tasks that stand at HC_HOST_OP, and their stack pointers there
        self.inside: list[tuple[HostTask, int]] = []
        self.host_ops: dict[int, HostOpHandler] = {}
        self._bug: BaseException | None = None  # raised by a task that no thread runs
        self._in_work: list[HostTask] = []  # tasks whose requests threads run
        self._files: HostOpHandler = lambda _op: -errno.EIO
        self.refusal: KernelError | None = None  # by the last call's host op
        self._ran: Callable[[], None] = lambda: None
        sched.attach(self._serve, self._on_exit)

    def attach_files(self, serve: HostOpHandler) -> None:
        """Let serve() answer for the mount's files in calls without a host_op."""
        self._files = serve

    def tell(self, ran: Callable[[], None]) -> None:
        """Have ran() called behind each request, however it has ended.

        What somebody waits for may have happened in it, whatever it was made for.
        """
        self._ran = ran

    @property
    def busy(self) -> bool:
        """Return True if some thread runs the guest for a request.  Context: any."""
        return bool(self._in_work)

    def find(self, pid: int) -> HostTask:
        """Return the task of a guest pid, whatever made it; ESRCH if there is none."""
        task = self.tasks.get(pid)
        if task is None:
            addr = self._table.find(pid)
            if addr is None:
                raise KernelError(errno.ESRCH, f"no task {pid}")
            task = self.tasks[pid] = HostTask(self._memory, self._table, addr)
        return task

    def all_tasks(self) -> list[HostTask]:
        """Return all tasks that requests were made for."""
        return [*self.tasks.values()]

    def init(self) -> HostTask:
        """Return the guest's first process."""
        return self.find(INIT_PID)

    def awake(self) -> HostTask:
        """Return init, or another task if init sleeps in the handler of a probe."""
        init = self.tasks.get(INIT_PID) or self.init()
        if not init.blocked or self.has_ended(init):
            return init
        tasks = self.tasks.values()
        return next((t for t in tasks if not t.blocked and not t.gone), init)

    def begin(self, task: HostTask) -> None:
        """Check that a task can take a request, before one is put into it.

        Wait for the one that another thread has it make.
        """
        if task.busy:
            self.wait_for(task)
        if self._sched.dead:
            raise GuestPanicError(self._sched.dead)
        if task.gone:
            raise KernelError(errno.ESRCH, f"task {task.pid} has exited")
        if task.blocked:
            raise KernelError(errno.EBUSY, f"task {task.pid} sleeps in a call")
        # the task is in no call: the mark is that of a former task with this pid
        self.exited.pop(task.pid, None)
        task.used = 0
        task.refusal = None

    def wait_for(self, task: HostTask) -> None:
        """Wait until no thread has a task make a request."""
        while task.busy and not self._sched.dead:
            self._sched.step_aside(BUSY_PAUSE)

    def perform(self, task: HostTask, sleeps: bool = False) -> int:
        """Run a task's request until it is done, the task is gone, or BLOCKED."""
        try:
            return self._run_request(task, sleeps)
        finally:
            self._ran()

    def _run_request(self, task: HostTask, sleeps: bool) -> int:
        sched = self._sched
        wakeups, number = self._wakeups, self._wakeups.own_cpu(task)
        state = abi.IDLE_TURN_REFUSED
        alone = not self._in_work and not sched.lockups.some
        if alone:
            task.blocked = task.busy = True
            at = self._ram_at + wakeups.at(number)
            request = self._ram_at + task.req_at
            try:
                state = sched.begin(number, self._resched_entry, at, task.addr, request)
            finally:
                task.busy = False
            if state >= abi.IDLE_TURN_DONE or (
                state == abi.IDLE_TURN_HOST_OP and self._is_over(task)
            ):
                task.blocked = False
                return self._after(task)
        if state == abi.IDLE_TURN_REFUSED:
            task.blocked = False
            self._clock.step()
            if alone:
                wakeups.set(number, task.addr)
            else:
                working = {other.addr for other in self._in_work}
                number = wakeups.choose(task, working)
                wakeups.add(number, task.addr)
            self._cpus.interrupt(number, self._resched_entry)
            sched.prefer(number)
        task.blocked = task.busy = True  # the first stays set if an exception ends it
        self._in_work.append(task)
        try:
            if not self._run(task, sleeps):
                return BLOCKED
            if sched.lockups.some:
                wakeups.remove(number, task.addr)
        finally:
            self._in_work.remove(task)
            task.busy = False
        task.blocked = False
        return self._after(task)

    def _after(self, task: HostTask) -> int:
        """Do the rest when a request is over; return its value."""
        sched, exited, pid = self._sched, self.exited, task.pid
        self.host_ops.pop(pid, None)
        ret = exited.pop(pid) if pid in exited else self.value(task)
        if self._clock.quiet and not sched.still and not self._cpus.all_idle():
            sched.run_until_idle(QUIET_TURNS)
        self._quiescence.check()
        self.refusal = task.refusal
        if task.bug is not None or self._bug is not None:
            bug, task.bug, self._bug = task.bug or self._bug, None, None
            assert bug is not None
            raise bug
        return ret

    def _run(self, task: HostTask, sleeps: bool) -> bool:
        """Run the guest until a task's request is over; False if it sleeps too long."""
        ram, sched, is_over = self._ram, self._sched, partial(self._is_over, task)

        def gives_up() -> bool:
            """Let other threads in; return True if the task sleeps, others are busy."""
            self.step_aside(0.0)
            return not is_over() and not _U32.unpack_from(ram, task.on_rq_at)[0]

        until = expiries = begun = 0
        while not sched.run(is_over, gives_up):
            if sleeps and not self._clock.quiet:
                return False
            if begun != (begun := self.begun(task)):
                until = expiries = 0  # it sleeps in another call than before
            until = until or self._patience_ends()
            if not self._cpus.all_idle():
                if self._clock.now() > until:
                    return False
                continue
            expiries += 1
            if expiries > EXPIRIES_MAX or not self._pass_time(until, timers=sleeps):
                return False
            if is_over():  # in the meantime
                break
        return True

    def step_aside(self, seconds: float) -> None:
        """Let other threads run the guest, for some seconds in any case."""
        self._sched.step_aside(seconds)
        if self._sched.dead:
            raise GuestPanicError(self._sched.dead)

    def _patience_ends(self) -> int:
        virtual = self._clock.quiet
        return self._clock.now() + (QUIET_PATIENCE_NS if virtual else PATIENCE_NS)

    def _pass_time(self, until: int, *, timers: bool = False) -> bool:
        """Wait for the next timer while all CPUs idle; return False if none is due.

        timers: those of the clock count too.  Other threads are let in, but not in the
        middle of an operation on a file.
        """
        sched, clock = self._sched, self._clock
        if timers:
            self._quiescence.check()
        times = self._cpus.next_deadline(), clock.next_timer() if timers else None
        deadline = min((t for t in times if t is not None), default=None)
        if deadline is None or deadline > until:
            return False
        clock.advance(deadline)
        now = clock.now()
        if now < deadline:
            wait = time.sleep if self.inside else self.step_aside
            wait((deadline - now) / 1e9)
        if timers:
            clock.run_timers()
        sched.expire()
        return True

    def perform_nested(self, kind: int, nr: int, args: Sequence[Arg]) -> int:
        """Make the task that stands at a host operation serve a request in its middle.

        It is done when it stands there again with the same stack pointer; what it does
        may come to host operations of its own in between.
        """
        if self._sched.dead:
            raise GuestPanicError(self._sched.dead)
        task, sp = self.inside[-1]
        words = task.place(args)
        _REQUEST.pack_into(self._ram, task.nested_at, kind, nr, *words, 0)
        sched, pid = self._sched, task.pid
        until = self._patience_ends()

        def is_over() -> bool:
            return sched.standing.get(pid) == sp or task.gone

        outer = sched.await_standing(pid, sp)
        try:
            while not sched.run(is_over):
                if not self._pass_time(until):
                    raise KernelError(errno.EDEADLK, "a nested call sleeps for ever")
        finally:
            sched.resume(pid, outer)
        if task.gone:
            raise KernelError(errno.EFAULT, "killed in a nested call")
        del sched.standing[pid]
        return int(_I64.unpack_from(self._ram, task.nested_at + _RET_AT)[0])

    def _serve(self, pid: int, sp: int) -> None:
        """Run the handler of a task that stands at HC_HOST_OP and leave the answer."""
        task = self.tasks.get(pid) or self.find(pid)
        op = HostOp(self._memory, task.host_op_at, pid)
        handler = self.host_ops.get(pid, self._files)
        used = task.used
        self.inside.append((task, sp))
        try:
            result = handler(op)
        except KernelError as exc:
            task.refusal = exc
            result = -exc.errno
        except BaseException as exc:
            if task.busy:
                task.bug = exc
            else:
                self._bug = exc
            result = -errno.EIO
        finally:
            self.inside.pop()
            task.used = used
        if task.gone:
            return
        # the guest looks here for a nested request, even while it serves one
        _U64.pack_into(self._ram, task.nested_at, abi.REQ_NONE)
        op.answer(result)

    def is_done(self, task: HostTask) -> bool:
        """Return True if the request that is in the task has been served."""
        return bool(_U64.unpack_from(self._ram, task.req_at)[0] == REQ_NONE)

    def _is_over(self, task: HostTask) -> bool:
        """Return True if a task's request is done, or has ended the task."""
        return self.is_done(task) or task.pid in self.exited

    def value(self, task: HostTask) -> int:
        """Return the value of the request that was served."""
        return int(_I64.unpack_from(self._ram, task.req_at + _RET_AT)[0])

    def has_ended(self, task: HostTask) -> bool:
        """Return True if a call that was BLOCKED has ended since."""
        if task.gone or task.busy or not self.is_done(task):
            return False
        self.host_ops.pop(task.pid, None)
        task.blocked = False
        return True

    def _on_exit(self, pid: int) -> None:
        """Context: hit."""
        task = self.tasks.pop(pid, None)
        if task is None:
            return
        # it ended in the middle of a request: an oops killed it
        self.exited[pid] = self.value(task) if self.is_done(task) else -errno.EFAULT
        task.gone = True
        task.close()

    def begun(self, task: HostTask) -> int:
        """Return how many calls of a REQ_SYSCALLS were begun."""
        return int(_U64.unpack_from(self._ram, task.req_at + _NR_AT)[0])
