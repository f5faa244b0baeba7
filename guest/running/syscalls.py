# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls of the guest, made by tasks that stand for processes of the host.

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
import os
import struct
import time
from collections.abc import Callable, Sequence
from functools import partial

from kpfs.base import abi, host_process
from kpfs.base.abi import REQ_NONE, TASK_COMM_LEN, WAKEUPS_MAX
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import MASK64
from kpfs.base.syscall_numbers import CLONE3, EXIT_GROUP
from kpfs.base.typed import NamedTuple
from kpfs.base.units import MAX_ARGS
from kpfs.guest.emu.memory import Memory
from kpfs.guest.emu.traps import GuestPanicError
from kpfs.guest.running.clock import Clock
from kpfs.guest.running.hostop import HostOp, HostOpHandler
from kpfs.guest.running.hosttask import (
    INIT_PID,
    HostTask,
    comm_of,
    open_comm,
    parent_of,
    process_lives,
)
from kpfs.guest.running.sched import Sched
from kpfs.guest.running.tasks import TaskTable

__all__ = ["BLOCKED", "HostTask", "Syscalls"]

BLOCKED = -512  # answer of call(): the task sleeps for longer than call() waits
# How long a call may sleep: on a live machine the lock is held meanwhile.
PATIENCE_NS = 1_000_000_000
QUIET_PATIENCE_NS = 3600 * 1_000_000_000
EXPIRIES_MAX = 2_000  # timers in one wait, as some recur for ever, every 4 ms
# turns after a request on a quiet machine, where time passes with requests only: what
# tasks have to do is done, unless one is busy for long
QUIET_TURNS = 1024
BUSY_PAUSE = 0.0005  # s between looks whether a task is still busy
_REAP_INTERVAL_NS = 1_000_000_000
_REQUEST = abi.KpfsRequest.STRUCT
_RET_AT = abi.KpfsRequest.ret
_NR_AT = abi.KpfsRequest.nr
_COUNT_AT = abi.KpfsRequest.args + 8  # the count in a REQ_SYSCALLS
CALLS_AT_ONCE = 64
_CLONE_ARGS = abi.KpfsCloneArgs.STRUCT
_I64 = struct.Struct("<q")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_WAKEUP = struct.Struct("<2Q")  # struct kpfs_wakeups, of one task
_WAKEUPS_SIZE = 8 * (1 + WAKEUPS_MAX)
_NO_WORDS = (0, 0, 0, 0, 0, 0, 0)
_SIGCHLD = 17
_SIGKILL = 9

Arg = int | bytes | str


class PreparedCall(NamedTuple):
    """A function of the guest with its arguments, and the request that calls it."""

    words: tuple[int, ...]
    request: bytes


class Syscalls:
    """Makes system calls and function calls in the guest."""

    def __init__(
        self,
        memory: Memory,
        sched: Sched,
        clock: Clock,
        tasks: TaskTable,
        *,
        wakeups: int,
        resched_entry: int,
        numbers: Callable[[], dict[str, int]],
        address_of: Callable[[str], int | None],
        forks_seen: Callable[[], bool],
    ) -> None:
        """``wakeups`` is the offset in RAM of struct kpfs_wakeups of the first CPU.

        forks_seen: tells whether the event that names tasks' makers is on.
        """
        self._memory = memory
        self._ram, self._ram_at = memory.ram, memory.host_address()
        self._sched = sched
        self._clock = clock
        self._table = tasks
        self._wakeups = wakeups
        self._resched_entry = resched_entry
        self._numbers = numbers
        self._address_of = address_of
        self._forks_seen = forks_seen
        self._number_of: dict[str, int] = {}
        self._tasks: dict[int, HostTask] = {}
        self._forking: set[int] = set()  # host pids for which threads fork tasks
        self._of_host: dict[int, HostTask] = {}  # tasks of processes, by the host's pid
        # results of the requests in which tasks ended, by pid
        self._exited: dict[int, int] = {}
        # tasks that stand at HC_HOST_OP, and their stack pointers there
        self._inside: list[tuple[HostTask, int]] = []
        self._host_ops: dict[int, HostOpHandler] = {}
        self._bug: BaseException | None = None  # raised by a task that no thread runs
        self._in_work: list[HostTask] = []  # tasks whose requests threads run
        self._next_reap = 0
        self._files: HostOpHandler = lambda _op: -errno.EIO
        self.refusal: KernelError | None = None  # by the last call's host op
        self._ran: Callable[[], None] = lambda: None
        self._unpinned = os.sched_getaffinity(0)
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

    # ---- calls
    def call(
        self,
        task: HostTask,
        nr: int | str,
        *args: Arg,
        host_op: HostOpHandler | None = None,
        sleeps: bool = False,
    ) -> int:
        """Make a system call as a task; return its value, or -errno.

        Strings and bytes go to the task's user memory.  ``host_op`` runs when the call
        reaches a file of the mount; a KernelError it raises is the call's -errno, any
        other exception is raised here once the call is over.  BLOCKED if the task went
        to sleep.  In a host operation the task that stands there makes the call.

        sleeps: it may do so for long: on a live machine nobody waits for it here, and
        on a quiet one what is to be done later is done in between.  See collect().
        """
        if isinstance(nr, str):
            nr = self.number(nr)
        if not self._inside:
            return self._request(task, abi.REQ_SYSCALL, nr, args, host_op, sleeps)
        task = self._inside[-1][0]
        task.refusal = self.refusal = None
        pid = task.pid
        outer = self._host_ops.get(pid)
        if host_op is not None:
            self._host_ops[pid] = host_op
        try:
            return self._request_nested(abi.REQ_SYSCALL, nr, args)
        finally:
            self.refusal = task.refusal
            if outer is not None:
                self._host_ops[pid] = outer

    def call_some(
        self,
        task: HostTask,
        calls: Sequence[tuple[str, Sequence[Arg]]],
        host_op: HostOpHandler,
    ) -> tuple[int, int]:
        """Make the first few of some system calls, up to one that fails, in one go.

        They are as call() makes them, but the task does not sleep in between.
        Returns how many were begun, one at least, and the value of the last one.
        """
        rows: list[list[int]] = []
        strings = b""
        for name, args in calls[:CALLS_AT_ONCE]:
            try:
                words, more = self._row(task.user + len(strings), name, args)
            except KernelError:
                if not rows:
                    raise
                break  # the others come first
            size = len(strings) + len(more) + (len(rows) + 1) * _REQUEST.size
            if size > abi.USER_BUFFER:
                break
            rows.append(words)
            strings += more
        if len(rows) <= 1 or self._inside:
            name, args = calls[0]
            return 1, self.call(task, name, *args, host_op=host_op)
        self._begin(task)
        table = b"".join([_REQUEST.pack(abi.REQ_SYSCALL, *words, 0) for words in rows])
        self._memory.write(task.user, strings + table)
        self._host_ops[task.pid] = host_op
        request = task.user + len(strings), len(rows), *_NO_WORDS[2:]
        _REQUEST.pack_into(self._ram, task.req_at, abi.REQ_SYSCALLS, 0, *request, 0)
        ret = self._perform(task)
        if ret == BLOCKED:  # so that the others do not follow
            _U64.pack_into(self._ram, task.req_at + _COUNT_AT, 0)
        # of a task that is gone it may be anything
        return min(max(self._begun(task), 1), len(rows)), ret

    def _row(self, at: int, name: str, args: Sequence[Arg]) -> tuple[list[int], bytes]:
        """Return a call's number and seven words, and its strings, to be at ``at``."""
        words = [self.number(name), 0, 0, 0, 0, 0, 0, 0]
        strings = b""
        for index, arg in enumerate(args, 1):
            if isinstance(arg, int):
                words[index] = arg & MASK64
            else:
                words[index] = at + len(strings)
                data = _bytes(arg)
                strings += data + bytes(-len(data) % 8)
        return words, strings

    def _begun(self, task: HostTask) -> int:
        """Return how many calls of a REQ_SYSCALLS were begun."""
        return int(_U64.unpack_from(self._ram, task.req_at + _NR_AT)[0])

    def collect(self, task: HostTask) -> int:
        """Return the value of a call that was BLOCKED; BLOCKED while it sleeps."""
        if task.gone:
            self._exited.pop(task.pid, None)
            return -errno.EFAULT
        if task.blocked and not self._has_ended(task):
            return BLOCKED
        return self._value(task)

    def has_ended(self, task: HostTask) -> bool:
        """Return True if collect() has a value."""
        return task.gone or not task.blocked or self._is_done(task)

    def interrupt(self, task: HostTask) -> None:
        """Wake a task whose process has got a signal.

        Unless nothing wakes it but what it waits for.
        """
        func = self._address_of("kpfs_interrupt")
        if func is not None and not task.gone:
            self.call_function(self._awake(), func, task.addr)

    def call_function(self, task: HostTask | None, func: int, *args: int) -> int:
        """Run a kernel function as a task (None: init); return its signed value.

        In a host operation the task that stands there runs it.
        """
        if len(args) > MAX_ARGS:
            raise KernelError(errno.EINVAL, "more than six arguments")
        task = task or self._awake()
        if self._inside:
            return self._request(task, abi.REQ_CALL, 0, (func, *args))
        self._begin(task)
        words = func, *[arg & MASK64 for arg in args], *_NO_WORDS[len(args) + 1 :]
        _REQUEST.pack_into(self._ram, task.req_at, abi.REQ_CALL, 0, *words, 0)
        return self._perform(task)

    def prepare(self, func: int, *args: int) -> PreparedCall:
        """Prepare a call of a function that is made often; see call_prepared()."""
        words = func, *args
        request = _REQUEST.pack(abi.REQ_CALL, 0, *words, *_NO_WORDS[len(words) :], 0)
        return PreparedCall(words, request)

    def call_prepared(self, task: HostTask, call: PreparedCall) -> int:
        """Call a function as call_function() does, by a prepared request."""
        if self._inside:
            return self._request(task, abi.REQ_CALL, 0, call.words)
        self._begin(task)
        at = task.req_at
        self._ram[at : at + len(call.request)] = call.request
        return self._perform(task)

    def number(self, name: str) -> int:
        """Return the number of a system call by name; ENOSYS if the guest has none."""
        if not self._number_of:
            self._number_of = self._numbers()
        try:
            return self._number_of[name]
        except KeyError:
            raise KernelError(errno.ENOSYS, f"no system call {name}") from None

    def _request(
        self,
        task: HostTask,
        kind: int,
        nr: int,
        args: tuple[Arg, ...],
        host_op: HostOpHandler | None = None,
        sleeps: bool = False,
    ) -> int:
        if self._inside:
            return self._request_nested(kind, nr, args)
        self._begin(task)
        if host_op is not None:
            self._host_ops[task.pid] = host_op
        words = self._place(task, args)
        _REQUEST.pack_into(self._ram, task.req_at, kind, nr, *words, 0)
        return self._perform(task, sleeps)

    def _begin(self, task: HostTask) -> None:
        """Check that a task can take a request, before one is put into it.

        Wait for the one that another thread has it make.
        """
        if task.busy:
            self._await(task)
        if self._sched.dead:
            raise GuestPanicError(self._sched.dead)
        if task.gone:
            raise KernelError(errno.ESRCH, f"task {task.pid} has exited")
        if task.blocked:
            raise KernelError(errno.EBUSY, f"task {task.pid} sleeps in a call")
        # the task is in no call: the mark is that of a former task with this pid
        self._exited.pop(task.pid, None)
        task.used = 0
        task.refusal = None

    def _await(self, task: HostTask) -> None:
        """Wait until no thread has a task make a request."""
        while task.busy and not self._sched.dead:
            self._sched.step_aside(BUSY_PAUSE)

    def _place(self, task: HostTask, args: tuple[Arg, ...]) -> list[int]:
        """Return the seven argument words, with strings copied to user memory."""
        words = [
            arg & MASK64
            if isinstance(arg, int)
            else self._place_bytes(task, _bytes(arg))
            for arg in args
        ]
        words += _NO_WORDS[len(words) :]
        return words

    def _place_bytes(self, task: HostTask, data: bytes) -> int:
        size = (len(data) + 7) & ~7
        if task.used + size > abi.USER_BUFFER:
            if len(data) <= abi.USER_BUFFER:
                raise KernelError(errno.E2BIG, "the arguments do not fit")
            self._memory.write(task.buffer, data[: abi.USER_BUFFER_SIZE])
            return task.buffer
        addr = task.user + task.used
        self._memory.write(addr, data)
        task.used += size
        return addr

    def _perform(self, task: HostTask, sleeps: bool = False) -> int:
        """Run a task's request until it is done, the task is gone, or BLOCKED."""
        try:
            return self._run_request(task, sleeps)
        finally:
            self._ran()

    def _run_request(self, task: HostTask, sleeps: bool) -> int:
        sched = self._sched
        number = self._own_cpu(task)
        wakeups = self._wakeups + number * _WAKEUPS_SIZE
        state = abi.IDLE_TURN_REFUSED
        alone = not self._in_work and not sched.some_held
        if alone:
            task.blocked = task.busy = True
            at, request = self._ram_at + wakeups, self._ram_at + task.req_at
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
                _WAKEUP.pack_into(self._ram, wakeups, 1, task.addr)
            else:
                number = self._choose_cpu(task)
                self._list(number, task.addr)
            sched.interrupt(number, self._resched_entry)
            sched.prefer(number)
        task.blocked = task.busy = True  # the first stays set if an exception ends it
        self._in_work.append(task)
        try:
            if not self._run(task, sleeps):
                return BLOCKED
            if sched.some_held:
                self._unlist(number, task.addr)
        finally:
            self._in_work.remove(task)
            task.busy = False
        task.blocked = False
        return self._after(task)

    def _after(self, task: HostTask) -> int:
        """Do the rest when a request is over; return its value."""
        sched, exited, pid = self._sched, self._exited, task.pid
        self._host_ops.pop(pid, None)
        ret = exited.pop(pid) if pid in exited else self._value(task)
        if self._clock.quiet and not sched.still and not sched.all_idle():
            sched.run_until_idle(QUIET_TURNS)
        sched.note_quiescence()
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
            self._step_aside(0.0)
            return not is_over() and not _U32.unpack_from(ram, task.on_rq_at)[0]

        until = expiries = begun = 0
        while not sched.run(is_over, gives_up):
            if sleeps and not self._clock.quiet:
                return False
            if begun != (begun := self._begun(task)):
                until = expiries = 0  # it sleeps in another call than before
            until = until or self._patience_ends()
            if not sched.all_idle():
                if self._clock.now() > until:
                    return False
                continue
            expiries += 1
            if expiries > EXPIRIES_MAX or not self._pass_time(until, timers=sleeps):
                return False
            if is_over():  # in the meantime
                break
        return True

    def _step_aside(self, seconds: float) -> None:
        """Let other threads run the guest, for some seconds in any case."""
        self._sched.step_aside(seconds)
        if self._sched.dead:
            raise GuestPanicError(self._sched.dead)

    def _choose_cpu(self, task: HostTask) -> int:
        """Return the CPU on which a request is to run.

        It is the task's own, unless it is held or runs another thread's request, and
        another is not or does not. A pinned task leaves its CPUs only if all are held.
        """
        sched = self._sched
        own, cpus = self._own_cpu(task), task.cpus
        working, nr_cpus = {other.addr for other in self._in_work}, sched.nr_cpus

        def taken(number: int) -> tuple[bool, bool, bool, int]:
            forbidden = bool(cpus) and number not in cpus
            busy = sched.current(number) in working
            return sched.is_held(number), forbidden, busy, (number - own) % nr_cpus

        return min(range(nr_cpus), key=taken)

    def _own_cpu(self, task: HostTask) -> int:
        """Return the task's CPU, or one that its process is pinned to."""
        number: int = _U32.unpack_from(self._ram, task.cpu_at)[0]
        return number if not task.cpus or number in task.cpus else task.cpus[0]

    def _list(self, number: int, task: int) -> None:
        """List one more task to be woken by a CPU, which may have to do so for others.

        EAGAIN: there are too many.
        """
        at = self._wakeups + number * _WAKEUPS_SIZE
        listed: int = _U64.unpack_from(self._ram, at)[0]
        if listed == WAKEUPS_MAX:
            raise KernelError(errno.EAGAIN, f"too many requests for CPU {number}")
        _U64.pack_into(self._ram, at + 8 + 8 * listed, task)
        _U64.pack_into(self._ram, at, listed + 1)

    def _unlist(self, number: int, task: int) -> None:
        """Take a task that was woken otherwise off the list: it may end soon."""
        at = self._wakeups + number * _WAKEUPS_SIZE
        words = memoryview(self._ram)[at : at + _WAKEUPS_SIZE].cast("Q")
        left = [other for other in words[1 : 1 + words[0]] if other != task]
        words[0] = len(left)
        for index, other in enumerate(left, 1):
            words[index] = other

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
            sched.note_quiescence()
        times = sched.next_deadline(), clock.next_timer() if timers else None
        deadline = min((t for t in times if t is not None), default=None)
        if deadline is None or deadline > until:
            return False
        clock.advance(deadline)
        now = clock.now()
        if now < deadline:
            wait = time.sleep if self._inside else self._step_aside
            wait((deadline - now) / 1e9)
        if timers:
            clock.run_timers()
        sched.expire()
        return True

    # ---- host operations
    def _request_nested(self, kind: int, nr: int, args: tuple[Arg, ...]) -> int:
        """Make the task that stands at a host operation serve a request in its middle.

        It is done when it stands there again with the same stack pointer; what it does
        may come to host operations of its own in between.
        """
        if self._sched.dead:
            raise GuestPanicError(self._sched.dead)
        task, sp = self._inside[-1]
        words = self._place(task, args)
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
        task = self._tasks.get(pid) or self.find(pid)
        op = HostOp(self._memory, task.host_op_at, pid)
        handler = self._host_ops.get(pid, self._files)
        used = task.used
        self._inside.append((task, sp))
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
            self._inside.pop()
            task.used = used
        if task.gone:
            return
        # the guest looks here for a nested request, even while it serves one
        _U64.pack_into(self._ram, task.nested_at, abi.REQ_NONE)
        op.answer(result)

    # ---- tasks of host processes
    def init(self) -> HostTask:
        """Return the guest's first process."""
        return self.find(INIT_PID)

    def _awake(self) -> HostTask:
        """Return init, or another task if init sleeps in the handler of a probe."""
        init = self._tasks.get(INIT_PID) or self.init()
        if not init.blocked or self._has_ended(init):
            return init
        tasks = self._tasks.values()
        return next((t for t in tasks if not t.blocked and not t.gone), init)

    def find(self, pid: int) -> HostTask:
        """Return the task of a guest pid, whatever made it; ESRCH if there is none."""
        task = self._tasks.get(pid)
        if task is None:
            addr = self._table.find(pid)
            if addr is None:
                raise KernelError(errno.ESRCH, f"no task {pid}")
            task = self._tasks[pid] = HostTask(self._memory, self._table, addr)
        return task

    def host_task(
        self,
        pid: int,
        uid: int,
        comm: str | None = None,
        parent: int | None = None,
        flags: int = 0,
    ) -> HostTask:
        """Return the task of a host process; fork one in the guest if it is new there.

        ``comm`` and ``parent`` default to what /proc says of the process.
        flags: what it shares with its parent, as for clone3(2).
        """
        if pid <= INIT_PID:
            return self.init()
        while pid in self._forking and not self._inside:
            self._step_aside(BUSY_PAUSE)
        task = self._of_host.get(pid)
        if task is not None and task.busy and not self._inside:
            self._await(task)
            task = self._of_host.get(pid)
        if task is not None and task.blocked and not self._has_ended(task):
            self._abandon(task)
            task = None
        if task is None:
            return self._fork(pid, uid, comm, parent, flags)
        raw = b""
        if comm is None and task.comm_fd >= 0:
            try:
                raw = os.pread(task.comm_fd, 64, 0)
                if raw != task.raw_comm:
                    comm = comm_of(raw)
            except OSError:  # the process has ended, and its pid was used again
                self.exit(task)
                return self._fork(pid, uid, None, parent, flags)
        if comm is not None and comm != task.comm:
            self.set_comm(task, comm)
        if raw:
            task.raw_comm = raw
        if uid != task.uid:
            _U32.pack_into(self._ram, task.uid_at, uid)
            task.uid = uid
        self._pin(task, pid)
        return task

    def _pin(self, task: HostTask, pid: int) -> None:
        """Note on which of the guest's CPUs a process may run.

        The host alone knows, as the guest kernel has no sched_setaffinity(2). Who
        pinned kpfs as a whole did not mean the guest's CPUs.
        """
        try:
            cpus = os.sched_getaffinity(pid)
        except OSError:  # the process has ended
            return
        if cpus == self._unpinned:
            task.cpus = ()
        else:
            task.cpus = tuple(n for n in range(self._sched.nr_cpus) if n in cpus)

    def set_comm(self, task: HostTask, comm: str) -> None:
        """Kernel: __set_task_comm()."""
        task.comm, task.raw_comm = comm, b""
        data = os.fsencode(comm)[: TASK_COMM_LEN - 1].ljust(TASK_COMM_LEN, b"\0")
        self._ram[task.comm_at : task.comm_at + TASK_COMM_LEN] = data

    def _fork(
        self, pid: int, uid: int, comm: str | None, parent: int | None, flags: int = 0
    ) -> HostTask:
        if time.monotonic_ns() >= self._next_reap:
            self.reap()
        fd = -1
        if comm is None:
            fd, comm = open_comm(pid)
        if parent is None:
            parent = parent_of(pid)
        maker = self._maker(parent)
        if maker.blocked and not self._has_ended(maker):
            # the task sleeps in a call, which its process may have left
            maker = self._awake()
        if maker is not self._of_host.get(parent):
            flags = 0
        self._forking.add(pid)
        try:
            made = self._clone(maker, pid, uid, comm, flags)
            if made == -errno.EAGAIN and self.reap():
                made = self._clone(maker, pid, uid, comm, flags)
            if made == -errno.EEXIST:  # one of the guest's own tasks has that pid
                made = self._clone(maker, 0, uid, comm, flags)
            if made < 0:
                raise KernelError(-made, f"no task for process {pid}")
            task = self.find(made)
        except BaseException:
            if fd >= 0:
                os.close(fd)
            raise
        finally:
            self._forking.discard(pid)
        task.comm_fd, task.host_pid = fd, pid
        self._pin(task, pid)
        self._of_host[pid] = task
        return task

    def tasks(self) -> list[HostTask]:
        """Return all tasks that requests were made for."""
        return [*self._tasks.values()]

    def _maker(self, parent: int) -> HostTask:
        """Return the task of the process that forked another one, or else init.

        If anybody is told of that, it gets one if it descends from a process with one.
        """
        task = self._of_host.get(parent)
        if task is None and self._forks_seen() and self._descends(parent):
            task = self._fork(parent, host_process.uid(parent), None, None)
        return task or self.init()

    def _descends(self, pid: int) -> bool:
        """Return True if an ancestor of a process has a task."""
        while (pid := parent_of(pid)) > INIT_PID:
            if pid in self._of_host:
                return True
        return False

    def _clone(
        self, parent: HostTask, pid: int, uid: int, comm: str, flags: int
    ) -> int:
        """Make clone3() as the parent's task; return the new pid, or -errno."""
        task = self._inside[-1][0] if self._inside else parent
        if not self._inside:
            task.used = 0
        name = self._place_bytes(task, os.fsencode(comm)[: TASK_COMM_LEN - 1] + b"\0")
        set_tid = self._place_bytes(task, struct.pack("<i", pid)) if pid else 0
        signal = flags, 0, 0, 0, _SIGCHLD, 0, 0, 0
        pids = set_tid, int(bool(pid)), 0
        args = _CLONE_ARGS.pack(*signal, *pids, name, uid, 0xFFFF_FFFF)
        addr = self._place_bytes(task, args)
        return self._request(task, abi.REQ_SYSCALL, CLONE3, (addr, len(args)))

    def exit(self, task: HostTask, status: int = 0) -> None:
        """Make the task exit_group(), as its host process is gone."""
        if self._inside:
            return  # not now: another task is in a host operation
        self._request(task, abi.REQ_SYSCALL, EXIT_GROUP, (status,))

    def _is_done(self, task: HostTask) -> bool:
        """Return True if the request that is in the task has been served."""
        return bool(_U64.unpack_from(self._ram, task.req_at)[0] == REQ_NONE)

    def _is_over(self, task: HostTask) -> bool:
        """Return True if a task's request is done, or has ended the task."""
        return self._is_done(task) or task.pid in self._exited

    def _value(self, task: HostTask) -> int:
        """Return the value of the request that was served."""
        return int(_I64.unpack_from(self._ram, task.req_at + _RET_AT)[0])

    def _has_ended(self, task: HostTask) -> bool:
        """Return True if a call that was BLOCKED has ended since."""
        if task.gone or task.busy or not self._is_done(task):
            return False
        self._host_ops.pop(task.pid, None)
        task.blocked = False
        return True

    def _abandon(self, task: HostTask) -> None:
        """Kill the task of a process that left a call which was BLOCKED."""
        self._host_ops.pop(task.pid, None)
        if not self._inside:
            self.call(self._awake(), "kill", task.pid, _SIGKILL)
            self._sched.run_until_idle(QUIET_TURNS)

    def _on_exit(self, pid: int) -> None:
        """Context: hit."""
        task = self._tasks.pop(pid, None)
        if task is None:
            return
        # it ended in the middle of a request: an oops killed it
        self._exited[pid] = self._value(task) if self._is_done(task) else -errno.EFAULT
        task.gone = True
        if task.comm_fd >= 0:
            os.close(task.comm_fd)
        if self._of_host.get(task.host_pid) is task:
            del self._of_host[task.host_pid]

    def reap(self) -> int:
        """End the tasks of vanished host processes; return how many."""
        self._next_reap = time.monotonic_ns() + _REAP_INTERVAL_NS
        if self._inside:
            return 0
        gone = [
            t for t in self._tasks.values() if t.comm_fd >= 0 and not process_lives(t)
        ]
        for task in gone:
            self._end(task)
        return len(gone)

    def _end(self, task: HostTask) -> None:
        if task.busy or task.gone:
            return  # another thread sees to it
        if task.blocked and not self._has_ended(task):
            self._abandon(task)
        else:
            self.exit(task)

    def end_all(self) -> None:
        """End the tasks of host processes, whose files of /proc are closed already."""
        tasks = [task for task in self._tasks.values() if task.comm_fd >= 0]
        for task in tasks:
            task.comm_fd = -1
        for task in tasks:
            self._end(task)

    def close(self) -> None:
        """Close the files of /proc that the tasks hold."""
        for task in self._tasks.values():
            if task.comm_fd >= 0:
                os.close(task.comm_fd)
                task.comm_fd = -1


def _bytes(arg: bytes | str) -> bytes:
    """Return a string as the guest has it."""
    return (os.fsencode(arg) if isinstance(arg, str) else bytes(arg)) + b"\0"
