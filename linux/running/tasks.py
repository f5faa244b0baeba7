# SPDX-License-Identifier: GPL-2.0-or-later
"""Tasks of the guest that stand for processes of the host, and their requests."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from kpfs.base import abi, host_process
from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError
from kpfs.base.ktypes import Caller
from kpfs.base.lock import FairLock, Waiter
from kpfs.base.log import Log
from kpfs.linux.board.own import show
from kpfs.linux.running.machine import (
    AGENT,
    ArgumentOffset,
    LinuxMachine,
    MachineDiedError,
    Op,
    Out,
    Reply,
)

log = Log(__name__)

NO_PROCESS = -1  # a caller that is kpfs itself: no process has this number
WARP_NS = 60_000_000  # ns of the guest's time that pass at once when somebody waits
SHARE_NS = 20_000_000  # ns of the guest's time for tasks that a request has woken
_EINTR_SIGNAL = 10  # SIGUSR1, which the agent's tasks take and forget
_SIGKILL = 9
# the errno of a call whose task an oops has ended, as over the guest kernel; with EINTR
# programs would try again, and meet the oops, for ever
KILLED = errno.EFAULT
_NAME_SIZE = 16
READ_SIZE = 128 << 10
MAX_FILE = 64 << 20  # bytes of what kpfs reads for itself


class AgentTask:
    """One task of the guest."""

    def __init__(
        self, machine: LinuxMachine, slot: int, pid: int, host_pid: int, comm: str
    ) -> None:
        self.machine = machine
        self.slot = slot
        self.pid = pid
        self.host_pid = host_pid
        self.comm = comm
        self.waits = False  # its last request is not done
        # it was waited for without the lock, and its results are still to be taken
        self.owed = False
        self.gone = False
        self.waiter: Waiter | None = None  # the request that waits for it
        # its request is a close, and these wait until that has taken effect
        self.closing: list[Waiter] | None = None
        self.later: list[Op] = []  # to be made as soon as it does not wait
        self.cpus = frozenset[int]()  # that its process is pinned to; none: all
        self._comm_fd = -1  # /proc/PID/comm of its process

    def read_comm(self) -> str:
        """Return the name of its process; "" if that is gone."""
        for _ in range(2):  # another process may have the number by now
            try:
                if self._comm_fd < 0:
                    place, flags = f"/proc/{self.host_pid}/comm", os.O_CLOEXEC
                    self._comm_fd = os.open(place, os.O_RDONLY | flags)
                return os.pread(self._comm_fd, 64, 0).rstrip(b"\n").decode("latin-1")
            except OSError:
                self.forget_comm()
        return ""

    def state(self) -> dict[str, Any]:
        """Return all but what is open now or not, whatever the kernel goes back to."""
        return {name: it for name, it in vars(self).items() if name != "_comm_fd"}

    def forget_comm(self) -> None:
        """Close what read_comm() reads."""
        if self._comm_fd >= 0:
            os.close(self._comm_fd)
            self._comm_fd = -1


class TasksOwner(Protocol):
    """The kernel of some tasks.  Context: lock held."""

    def make_task(self, caller: Caller, comm: str) -> AgentTask:
        """Make the task of a new caller."""

    def begins(self, ops: Sequence[Op]) -> bool:
        """Prepare for operations of a request; return True if they only look."""

    def ran(self, ops: Sequence[Op] = (), *, looks: bool = True) -> None:
        """Look for changes after operations; looks: begins() has returned that."""

    def somebody_waits(self) -> None:
        """Let time pass from now on."""

    def last_words(self) -> list[str]:
        """Return the last lines of the log of a kernel that is dead."""

    def last_oops(self) -> str:
        """Return the last oops in the kernel's words, with the place; "": none."""


class Tasks:
    """All tasks.  Context: control, lock held once."""

    def __init__(
        self, machine: LinuxMachine, lock: FairLock, owner: TasksOwner
    ) -> None:
        self._owner = owner
        self._machine = machine
        self._lock = lock
        self._by_pid: dict[int, AgentTask] = {}
        self._free = list(range(abi.NR_SLOTS - 1, 0, -1))
        self.waiting: set[AgentTask] = set()
        self._dying: list[AgentTask] = []  # their slots are not free yet
        self.agent = AgentTask(machine, AGENT, 1, 0, "init")
        self.owner = os.getuid()
        self._nr_cpus: int = machine.board.get(abi.Board.nr_cpus)
        self._unpinned = os.sched_getaffinity(0)
        self._said = False  # the log has that the guest is dead

    def state(self) -> tuple[Any, ...]:
        """Return all that is known of tasks, none of which waits."""
        tasks = [(task, task.state()) for task in (*self._by_pid.values(), self.agent)]
        return tasks, {**self._by_pid}, [*self._free], [*self._dying], self._said

    def set_state(self, state: tuple[Any, ...]) -> None:
        """Go back to a state(); tasks that it lacks are gone."""
        for task in self._by_pid.values():
            task.gone = True
        tasks, by_pid, free, dying, self._said = state
        for task, values in tasks:
            vars(task).update(values)
        self._by_pid, self._free, self._dying = {**by_pid}, [*free], [*dying]
        self.waiting.clear()

    # ---- tasks and processes
    def known(self, pid: int) -> AgentTask | None:
        """Return the task of a process of the host, or None."""
        return self._by_pid.get(pid)

    def task(self, caller: Caller) -> AgentTask:
        """Return the caller's task, forked if it is new; it does not wait."""
        task = self.current(caller.pid)
        return task or self._owner.make_task(caller, host_process.comm(caller.pid))

    def current(self, pid: int) -> AgentTask | None:
        """Return the task of a process, or None if it has none; it does not wait.

        It has the name that the process has now.
        """
        task = self._by_pid.get(pid)
        if task is None or not self.free(task):
            return None
        comm = task.read_comm()
        if comm and comm != task.comm:
            name = comm.encode("latin-1")[: _NAME_SIZE - 1] + b"\0"
            self.ask(task, [Op(nr.PRCTL, (nr.PR_SET_NAME, name))])
            task.comm = comm
        if self._nr_cpus > 1:
            self._pin(task)
        return task

    def _pin(self, task: AgentTask) -> None:
        """Pin a task to the CPUs that its process is pinned to.

        Whoever pinned kpfs as a whole did not mean the kernel's CPUs.
        """
        try:
            cpus = os.sched_getaffinity(task.host_pid)
        except OSError:  # the process has ended
            return
        there = frozenset(range(self._nr_cpus))
        pinned = frozenset[int]() if cpus == self._unpinned else there & cpus
        if pinned != task.cpus:
            mask = task.machine.board.arch.model.raw(
                sum(1 << number for number in pinned or there), 8
            )
            self.ask(task, [Op(nr.SCHED_SETAFFINITY, (0, len(mask), mask))])
            task.cpus = pinned

    def fork(self, parent: AgentTask, caller: Caller, comm: str) -> AgentTask:
        """Make a task, with that pid if it is free; EAGAIN: there are too many."""
        if not self._free:
            self.bury()
        if not self._free:
            self.reap()
        if not self._free:
            raise KernelError(errno.EAGAIN, f"more than {abi.NR_SLOTS} tasks")
        slot = self._free.pop()  # as the parent may wait, and others fork meanwhile
        show(self._machine.board, slot, seen=caller.pid != NO_PROCESS)
        try:
            # the user that made the mount is root in it
            uid = abi.KEEP_ID if caller.uid == self.owner else caller.uid
            self._machine.clear(slot, comm.encode("latin-1"), uid, caller.gid)
            for pid in (caller.pid, 0):
                fork = Op(abi.AGENT_FORK, (slot, pid))
                made = self.ask(parent, [fork]).results[0]
                if made not in (-errno.EEXIST, -errno.EINVAL):
                    break
            if made < 0:
                raise KernelError(-made, "the guest cannot fork")
        except BaseException:
            self._free.append(slot)
            raise
        task = AgentTask(self._machine, slot, made, caller.pid, comm)
        task.cpus = parent.cpus  # Linux has a child inherit them
        self._by_pid[caller.pid] = task
        if self._nr_cpus > 1:
            self._pin(task)
        return task

    def free(self, task: AgentTask) -> bool:
        """Free a task from a call that its process has left; return False if lost.

        One that nothing can interrupt is killed: nobody is held up by it.  But a close
        was over for its process before this one began, and is waited for.
        """
        if task.waits and task.closing is not None:
            task.closing.append(waiter := Waiter())
            self._lock.hand_on()
            self._lock.sleep(waiter)
            self.check(task)
        if task.waits:
            self.interrupt(task)
        if task.waits:
            self._pass(task)
        if task.waits:
            self.kill(task)
        while task.later and not task.gone:
            ops, task.later = task.later[: abi.NR_OPS], task.later[abi.NR_OPS :]
            self.attempt(task, ops)
        return not task.gone

    def exit(self, task: AgentTask, status: int = 0) -> None:
        """End a task."""
        if task.waits:
            self.kill(task)
            return
        self._machine.start(task.slot, [Op(nr.EXIT_GROUP, (status,))])
        self._run(task)
        self._lose(task)
        if task in self._dying:  # it closes files, which may take effect only then
            until = self._machine.now() + WARP_NS
            with self._watched():
                self._machine.advance(until, lambda: self._is_buried(task))

    def exit_all(self) -> None:
        """End the tasks of all processes."""
        for task in list(self._by_pid.values()):
            self.exit(task)

    def kill(self, task: AgentTask) -> None:
        """End a task as soon as possible, whatever it does."""
        self._quick(Op(nr.KILL, (task.pid, _SIGKILL)))
        self._lose(task)

    def _lose(self, task: AgentTask) -> None:
        """Forget a task that has ended or will end."""
        if task.gone:
            return
        task.gone = True
        task.forget_comm()
        self._ended(task)
        self._machine.forget(task.slot)
        if self._by_pid.get(task.host_pid) is task:
            del self._by_pid[task.host_pid]
        self._dying.append(task)
        self.bury()

    def bury(self) -> None:
        """Free the slots of tasks that are no more."""
        for task in self._dying.copy():
            if self._quick(Op(nr.KILL, (task.pid, 0))) == -errno.ESRCH:
                self._free.append(task.slot)
                self._dying.remove(task)

    def _is_buried(self, task: AgentTask) -> bool:
        """Return True if a task is no more."""
        self.bury()
        return task not in self._dying

    def _quick(self, op: Op) -> int:
        """Make a call by the agent that never waits; return its result."""
        self._machine.start(AGENT, [op])
        self._run(self.agent)
        return self._machine.results(AGENT, 1)[0]

    def reap(self) -> None:
        """End the tasks of processes that are gone."""
        for task in list(self._by_pid.values()):
            if not host_process.exists(task.host_pid):
                self.exit(task)

    # ---- requests
    def request(self, task: AgentTask, ops: Sequence[Op], memory: bytes = b"") -> Reply:
        """Make system calls of a task; waits, without the lock, for those that wait.

        EINTR: the caller got a signal, and the call cannot be interrupted. KILLED: an
        oops has ended the task.
        """
        looks = self._owner.begins(ops)
        try:
            return self.ask(task, ops, memory)
        finally:
            self._owner.ran(ops, looks=looks)

    def ask(self, task: AgentTask, ops: Sequence[Op], memory: bytes = b"") -> Reply:
        """Make a request of kpfs itself, without a word to the owner."""
        self.check(task)
        if not self.free(task):
            raise KernelError(errno.EINTR, "its task was stuck, and was killed")
        places = self._begin(task, ops, memory)
        if task.waits:
            task.owed = True
            try:
                self._await(task)
            finally:
                task.owed = False
        if task.gone:
            killer = self._owner.last_oops() or "something in the kernel"
            raise KernelError(KILLED, f"{killer} has killed its task")
        return Reply(self._machine, task.slot, places, len(ops))

    def begin(self, task: AgentTask, ops: Sequence[Op]) -> list[ArgumentOffset]:
        """Begin with system calls; task.waits says whether they are not done yet."""
        looks = self._owner.begins(ops)
        places = self._begin(task, ops)
        self._owner.ran(ops, looks=looks)
        return places

    def begin_to_wait(self, task: AgentTask, op: Op) -> list[ArgumentOffset]:
        """Begin with a call of kpfs itself that is to wait: no time passes for it."""
        return self._begin(task, [op], patient=True)

    def _begin(
        self,
        task: AgentTask,
        ops: Sequence[Op],
        memory: bytes = b"",
        *,
        patient: bool = False,
    ) -> list[ArgumentOffset]:
        self.check(task)
        places, done = self._start(task.slot, ops, memory)
        if not done:
            self._begin_to_wait(task)
            if not patient:
                self._pass(task)
        if self.waiting:
            self._let_others_run(task)
        return places

    def _start(
        self, slot: int, ops: Sequence[Op], memory: bytes
    ) -> tuple[list[ArgumentOffset], bool]:
        """Run a request from where the host's clock is, until it is done or waits.

        Return where its data are, and True if it is done.
        """
        machine = self._machine
        try:  # as in _watched(), which would take a twentieth of a short request
            machine.catch_up()
            places = machine.start(slot, ops, memory)
            return places, machine.run(slot)
        except MachineDiedError:
            self.died()
            raise

    def attempt(
        self,
        task: AgentTask,
        ops: Sequence[Op],
        memory: bytes = b"",
        *,
        brief: bool = False,
    ) -> list[int]:
        """Make system calls of a task, none of which may wait; return their results.

        One that waits is interrupted; [] if even that takes long.  brief: they may wait
        for a moment, as _pass() lets it pass.
        """
        self.check(task)
        machine, slot = self._machine, task.slot
        _, done = self._start(slot, ops, memory)
        if not done:
            self._begin_to_wait(task)
            if brief:
                self._pass(task)
            if task.waits:
                self.interrupt(task)
        if self.waiting:
            self._let_others_run(task)
        lost = task.waits or task.gone
        results = [] if lost else machine.results(slot, len(ops))
        self._owner.ran()
        return results

    def call(self, task: AgentTask, *ops: Op, why: str = "") -> Reply:
        """Make a request; raise the first of its calls that fails.

        why: of the KernelError, beside its errno.  Context: lock held.
        """
        reply = self.request(task, ops)
        for result in reply.results:
            if result < 0:
                raise KernelError(-result, why)
        return reply

    def read_file(self, path: str) -> bytes:
        """Return a file's contents, read by the agent.  Context: lock held."""
        # bytes would be copied by each read
        agent, content = self.agent, bytearray()
        name = path.encode("latin-1") + b"\0"
        opening = Op(nr.OPENAT, (nr.AT_FDCWD, name, os.O_RDONLY, 0))
        fd = self.call(agent, opening, why=path).results[0]
        read = Op(nr.READ, (fd, Out(READ_SIZE), READ_SIZE))
        try:
            while size := (reply := self.call(agent, read, why=path)).results[0]:
                content += reply.out(0, size)
                if len(content) > MAX_FILE:
                    raise KernelError(errno.EFBIG, path)
        finally:
            self.request(agent, [Op(nr.CLOSE, (fd,))])
        return bytes(content)

    def _pass(self, task: AgentTask) -> None:
        """Let a moment pass for a task that waits for a grace period and the like.

        Nobody can tell that it was short.
        """
        machine = self._machine
        until = machine.now() + WARP_NS
        with self._watched():
            machine.advance(until, lambda: machine.has_done(task.slot))
        self.look()
        if task.waits:
            machine.wait_from_here()
            self.look_after(task)

    def look_after(self, task: AgentTask) -> None:
        """Find out whether a task that waits still lives: an oops ends it, say."""
        if self._quick(Op(nr.KILL, (task.pid, 0))) == -errno.ESRCH:
            self._lose(task)

    def _let_others_run(self, task: AgentTask) -> None:
        """Run the tasks that this request has woken."""
        if self.waiting - {task}:
            with self._watched():
                self._machine.settle(self._machine.now() + SHARE_NS)
            self.look()

    def _begin_to_wait(self, task: AgentTask) -> None:
        task.waits = True
        self.waiting.add(task)
        self._owner.somebody_waits()

    def _run(self, task: AgentTask) -> None:
        with self._watched():
            self._machine.run(task.slot)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Log a guest's death at once."""
        try:
            yield
        except MachineDiedError:
            self.died()
            raise

    def _await(self, task: AgentTask) -> None:
        """Wait until the task's request is done, or its caller gets a signal."""
        while task.waits:
            waiter = task.waiter = Waiter()
            self._lock.sleep(waiter)
            self.check(task)
            if task.waits and not waiter.awake:
                self.interrupt(task)
                if task.waits:
                    raise KernelError(errno.EINTR, "a signal")

    def interrupt(self, task: AgentTask) -> None:
        """Make the call that a task waits in fail with EINTR, if possible."""
        made = self._quick(Op(nr.TGKILL, (task.pid, task.pid, _EINTR_SIGNAL)))
        self.look()
        if made == -errno.ESRCH:  # something in the guest has killed it
            self._lose(task)

    def look(self) -> None:
        """Find out which requests are done by now, and wake their callers."""
        for task in [t for t in self.waiting if self._machine.has_done(t.slot)]:
            self._ended(task)

    def _ended(self, task: AgentTask) -> None:
        task.waits = False
        self.waiting.discard(task)
        if task.waiter is not None:
            waiter, task.waiter = task.waiter, None
            waiter.wake()
        while task.closing:
            task.closing.pop().wake()

    def stop(self) -> None:
        """Wake all that wait, as the guest is not used any more."""
        self._said = True
        self.died()

    def died(self) -> None:
        """Log once that the guest is dead, and wake all that wait."""
        if not self._said:
            self._said = True
            words = "".join(f"\n  {line}" for line in self._owner.last_words())
            log.error("the guest is dead: %s%s", self._machine.dead, words)
        for task in list(self.waiting):
            self._ended(task)

    def check(self, task: AgentTask) -> None:
        """Raise ESHUTDOWN if the guest is dead or the task was in another one."""
        if self._machine.dead:
            self.died()
            raise MachineDiedError(self._machine.dead)
        if task.machine is not self._machine:
            raise MachineDiedError("its task was in a guest that is gone")
