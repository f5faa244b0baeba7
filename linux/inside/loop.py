# SPDX-License-Identifier: GPL-2.0-or-later
"""The event loop of a kernel that runs commands: workers, time, and the host's
descriptors.

A worker is a task of the agent that makes system calls for kpfs, most of which wait.
The board stops as soon as a worker has finished a request, so nothing is ever polled
inside the kernel.
"""

from __future__ import annotations

import contextlib
import errno
import select
from collections.abc import Callable, Sequence

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.data_model import DataModel
from kpfs.linux.arch.arch import LinuxArch
from kpfs.linux.board.board import Board
from kpfs.linux.board.own import show
from kpfs.linux.inside import runnable
from kpfs.linux.running.machine import (
    AGENT,
    ArgumentOffset,
    LinuxMachine,
    MachineDiedError,
    Op,
    Reply,
    Unrest,
)

LEAD_NS = 60_000_000  # by which the kernel's clock may lead the host's unnoticed
BEHIND_NS = 10_000_000
LATE_NS = 1_000_000_000
OUTLIVED_NS = 1_000_000  # for which processors run on when one has ended the kernel
# for which they may take over what it has left to be run, as the scheduler does
TAKEN_OVER_NS = 100_000_000
REST_MS = 10  # longest sleep while nothing happens
MAX_PAUSES = 100  # without a look at the host; not by its clock: see --quiet-guest
# If no other task runs, fewer blocks of code than this run between two pauses of the
# agent; the kernel's tick takes about half of them.
QUIET_BLOCKS = 2_000
TURNS = 5  # turns of the agent that settle_all() waits for at most
_KEEP = abi.KEEP_ID
_ALL_FDS, _FEW_FDS = 0xFFFFFFFF, 128
_MEM_FD = 1000  # the agent's own: MEM_FD of agent.c

_PIECE = 1 << 17  # bytes of one write
Then = Callable[[], object]


def sleep(ns: int, model: DataModel) -> Op:
    """Return a call that sleeps for less than a second, which few probe.

    nanosleep(2) would be hit, and its returns take instances, for a task of kpfs.
    """
    no_signal, time = bytes(8), model.struct("2q").pack(0, ns)
    return Op(nr.RT_SIGTIMEDWAIT, (no_signal, 0, time, len(no_signal)))


class CallError(OSError):
    """A system call failed that had to succeed."""


class Worker:
    """A task of the kernel that makes calls for the host."""

    def __init__(self, loop: Loop, slot: int, pid: int) -> None:
        self._loop = loop
        self.slot = slot
        self.pid = pid

    @property
    def board(self) -> Board:
        return self._loop.machine.board

    @property
    def arch(self) -> LinuxArch:
        return self.board.arch

    @property
    def model(self) -> DataModel:
        return self.board.arch.model

    @property
    def busy(self) -> bool:
        """Return True if a request is under way."""
        return self._loop.expects(self.slot)

    @property
    def memory(self) -> memoryview:
        """Return the data area of its slot."""
        return self._loop.machine.memory(self.slot)

    def start(
        self, ops: Sequence[Op], then: Then, memory: bytes = b""
    ) -> list[ArgumentOffset]:
        """Begin a request, and call then() when it is done.

        One that is under way is waited for: the agent may have a moment's rest.
        """
        if self.busy:
            self.wait()
        places = self._loop.machine.start(self.slot, ops, memory)
        self._loop.expect(self.slot, then)
        return places

    def restart(self, ops: Sequence[Op], then: Then) -> int:
        """Begin a request that needs no data; return how many operations it has."""
        batch = self._loop.machine.batch(ops)
        self._loop.machine.begin(self.slot, batch.ops, batch.count)
        self._loop.expect(self.slot, then)
        return batch.count

    def results(self, count: int) -> list[int]:
        return self._loop.machine.results(self.slot, count)

    def request(self, *ops: Op, memory: bytes = b"") -> Reply:
        """Make calls and wait until they are done."""
        places = self.start(ops, lambda: None, memory)
        self.wait()
        return Reply(self._loop.machine, self.slot, places, len(ops))

    def attempt(self, *ops: Op, memory: bytes = b"") -> list[int]:
        """Make calls, wait until they are done and return their results."""
        return self.request(*ops, memory=memory).results

    def wait(self) -> None:
        """Run the kernel until this worker's request is done."""
        self._loop.run(lambda: not self.busy)

    def call(self, *ops: Op, memory: bytes = b"") -> list[int]:
        """Make calls as attempt() does. Raises CallError if one of them fails."""
        results = self.attempt(*ops, memory=memory)
        for op, result in zip(ops, results, strict=True):
            if result < 0:
                raise CallError(-result, f"system call {op.nr} in the guest failed")
        return results

    def write(self, fd: int, data: bytes) -> None:
        """Write to a regular file. Raises CallError."""
        for at in range(0, len(data), _PIECE):
            piece = data[at : at + _PIECE]
            self.call(Op(nr.WRITE, (fd, piece, len(piece))))

    def close_from(self, first: int, last: int = _ALL_FDS) -> None:
        """Close a descriptor and all after it, up to the last one."""
        (result,) = self.attempt(Op(nr.CLOSE_RANGE, (first, last, 0)))
        if result == -errno.ENOSYS:  # before Linux 5.9; few are open then
            fds = [fd for fd in (*range(_FEW_FDS), _MEM_FD) if first <= fd <= last]
            closes = [Op(nr.CLOSE, (fd,)) for fd in fds]
            for at in range(0, len(closes), abi.NR_OPS):
                self.attempt(*closes[at : at + abi.NR_OPS])

    def fork(self, name: str) -> Worker:
        """Fork another worker, which inherits everything that this one has."""
        slot = self._loop.take_slot(name)
        (pid,) = self.call(Op(abi.AGENT_FORK, (slot, 0)))
        return self._loop.add(slot, pid)


class Loop:
    """Runs one kernel. Context: the thread that owns the machine."""

    def __init__(
        self,
        machine: LinuxMachine,
        counts: Sequence[int] = (),
        cpu_of_agent: Callable[[], int] = lambda: -1,
    ) -> None:
        """counts: for each processor, where RAM has the number of tasks that can run on
        it; empty if unknown.

        cpu_of_agent: returns the processor on which the agent runs; -1: on none.
        """
        self.machine = machine
        self._counts = counts
        self._cpu_of_agent = cpu_of_agent
        self.agent = Worker(self, AGENT, 1)
        self.workers: dict[int, Worker] = {}  # by their slots; but for the agent
        self._then: dict[int, Then] = {}
        self._free = list(range(abi.NR_SLOTS - 1, 0, -1))
        self._ready: dict[int, Then] = {}
        self._poll = select.poll()
        self._quiet_since = 0  # blocks at the last pause of the agent
        self._pauses = 0  # since the last look at the host
        self._unrest = Unrest(machine)
        self.on_turn: Then = lambda: None  # called once for each look at the host
        self.on_busy_turn: Then = lambda: None  # at the end of one of a busy kernel
        # False: the agent yields instead, before each pause
        self.can_rest = len(counts) == 1
        self._turned = False  # the waker has had its turn
        if not self.can_rest:
            machine.others_run()

    # ---- workers
    def take_slot(self, name: str) -> int:
        slot = self._free.pop()
        self.machine.clear(slot, name.encode(), _KEEP, _KEEP)
        show(self.machine.board, slot, seen=False)
        return slot

    def adopt(self, slot: int, pid: int) -> Worker:
        """Return a worker that exists already in a kernel that was kept."""
        self._free.remove(slot)
        return self.add(slot, pid)

    def add(self, slot: int, pid: int) -> Worker:
        """Return the worker that a slot of ours was given to."""
        worker = self.workers[slot] = Worker(self, slot, pid)
        return worker

    def expect(self, slot: int, then: Then) -> None:
        self._then[slot] = then

    def expects(self, slot: int) -> bool:
        """Return True if the worker of a slot has an unfinished request."""
        return slot in self._then

    def forget(self, worker: Worker) -> None:
        """Drop a worker that has become another program or has ended."""
        self._then.pop(worker.slot, None)
        self.workers.pop(worker.slot, None)
        self.machine.forget(worker.slot)

    def release(self, worker: Worker) -> None:
        """Drop a worker that has ended, and free its slot."""
        self.forget(worker)
        self._free.append(worker.slot)

    def _finish(self, slot: int) -> bool:
        """Return True if a slot's worker has done its request; call what follows."""
        if not self.machine.has_done(slot):
            return False
        # a call of another worker may have dropped it
        self._then.pop(slot, lambda: None)()
        return True

    def _finish_all(self) -> bool:
        """Go on with all that workers have done. Return True if there was something."""
        finished = [self._finish(slot) for slot in list(self._then)]
        return any(finished)

    # ---- what the host waits for
    def watch(self, fd: int, events: int, then: Then) -> None:
        """Call then() whenever poll() reports one of these events."""
        self._ready[fd] = then
        self._poll.register(fd, events)

    def unwatch(self, fd: int) -> None:
        if self._ready.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def _look(self, timeout_ms: int) -> bool:
        """Wait for events of the host; return True if there was one."""
        found = self._poll.poll(timeout_ms)
        self._pauses = 0
        for fd, _ in found:
            if then := self._ready.get(fd):
                then()
        self.on_turn()
        return bool(found)

    # ---- running
    def run(self, done: Callable[[], bool]) -> None:
        """Run the kernel until done() is true. Raises MachineDiedError."""
        while not done():
            self.step()

    def settle(self) -> None:
        """Run until the agent has its turn and no worker has finished anything.

        Where the agent may lack a processor, the waker's turn counts as its own.
        """
        self._turned = False
        while not self._advance() and not self._turned:
            pass

    def turn(self) -> None:
        """Have a turn in place of the agent: go on with what workers have done."""
        self._turned = True
        self._finish_all()

    def settle_all(self) -> None:
        """Settle until no task but the agent can run, or all others have had turns.

        The agent has a share of the processor's time, and so may have its turn while a
        worker that has just been woken waits for its own.
        """
        for _ in range(TURNS):
            self.settle()
            if not runnable.others(self.machine.board, self._counts):
                break
            self._rest()

    def step(self) -> None:
        """Run the kernel for one step; let time pass if it is idle."""
        if self._advance():
            self._idle()

    def _advance(self) -> bool:
        """Run the machine for one step. Return True when the agent has paused."""
        machine = self.machine
        self._pauses += 1
        if self._pauses > MAX_PAUSES:  # which a kernel may make for ever
            self._look(0)
        try:
            why = machine.step()
            if why not in (abi.STOP_TURN, abi.STOP_PAUSE):
                raise machine.died(why)
        except MachineDiedError:
            self._outlive_one()
            raise
        if why == abi.STOP_TURN:
            self._end_turn()
            return False
        self._unrest.end()
        return self._pause()

    def _pause(self) -> bool:
        """Go on with what a worker has done. Return True if it is the agent's turn."""
        machine = self.machine
        current = machine.current()
        if current:
            has_finished = current in self._then and self._finish(current)
            if not has_finished or current not in self._then:
                machine.give_way()
            return False
        return not self._finish_all()

    def _outlive_one(self) -> None:
        """Run the other processors for a moment after one has ended the kernel.

        They go on until that one stops them. So a worker on one of them comes to read
        what the command has just written. To a terminal that is behind a task of the
        kernel, which may wait for the processor that has ended.
        """
        machine, board = self.machine, self.machine.board
        why, ended = machine.dead, board.get(abi.Board.current)
        others = [
            number
            for number in range(board.get(abi.Board.nr_cpus))
            if number != ended and board.get_cpu(number, abi.Cpu.state) != abi.CPU_OFF
        ]
        if not others or board.get(abi.Board.holds):  # a search compares runs
            return
        board.set_cpu(ended, state=abi.CPU_OFF)
        board.set_cpu(others[0], state=abi.CPU_RUNS)
        board.select(others[0])
        self._move_workers(others)
        begin = machine.now()
        until = begin + OUTLIVED_NS
        with contextlib.suppress(MachineDiedError):
            while machine.now() < until and machine.step() == abi.STOP_PAUSE:
                self._pause()
                can_run = runnable.each(board, self._counts)
                left = can_run.pop(ended) > 1 if can_run else False
                if left and sum(can_run) == 1:  # the agent
                    until = min(begin + TAKEN_OVER_NS, machine.now() + OUTLIVED_NS)
        board.set_cpu(ended, state=abi.CPU_RUNS)
        board.select(ended)
        machine.dead = why

    def _move_workers(self, processors: Sequence[int]) -> None:
        """Keep workers on these processors: one that is woken elsewhere may not run."""
        if self.agent.busy:
            return
        may = self.agent.model.struct("L").pack(sum(1 << one for one in processors))
        moves = [
            Op(nr.SCHED_SETAFFINITY, (worker.pid, len(may), may))
            for worker in self.workers.values()
        ]
        self.agent.start(moves[: abi.NR_OPS], lambda: None)

    def _end_turn(self) -> None:
        """Look at the host at the end of a turn, in which no worker has paused.

        A program may be busy for as long as it likes, and the agent gets its share. A
        kernel that is busy itself gives it none, and would never end.
        """
        if self.machine.in_kernel():
            self._unrest.end_turn()
            self.on_busy_turn()
        else:
            self._unrest.end()
        self.follow_host()
        self._look(0)

    def _idle(self) -> None:
        """Let time pass at the agent's pause if no other task can run."""
        blocks = self.machine.board.blocks
        ran, self._quiet_since = blocks - self._quiet_since, blocks
        # No other task ran, but one may be runnable and get its turn when the agent has
        # had its share. If time passed now, the kernel would charge it to the agent,
        # which as SCHED_IDLE would then have to wait for seconds.
        if runnable.others(self.machine.board, self._counts):
            self._rest()
        elif ran < QUIET_BLOCKS:
            self._pass_time()

    def _rest(self) -> None:
        """Have the agent sleep for a moment, so that it holds no other task back.

        A task that wakes up is placed 3 ms before the one that has run least. Up to
        6.5, the kernel skips a task that yields, and prefers the one that was preempted
        last, until the other is behind by a limit: 341 ms for SCHED_IDLE. So long, a
        task that waits now and then would preempt all others: a program that reads
        `trace`, and another one behind its pipe, then make new records by waking each
        other as fast as they read them.
        """
        if self.can_rest and AGENT not in self._then:
            self.agent.start([sleep(1, self.agent.model)], lambda: None)

    def follow_host(self) -> None:
        """Set the kernel's clock forward if it has fallen far behind the host's.

        Not while the agent has a processor that others want: the kernel charges the
        agent for that time 341-fold, and 30 ms would hold requests to it, such as
        signals for the command, up for 10 s.
        """
        machine = self.machine
        host, now, due = machine.host_now(), machine.now(), machine.deadline()
        if machine.quiet or now + BEHIND_NS > host:
            return
        can_run = runnable.each(machine.board, self._counts)
        if max(can_run, default=0) > 1:
            cpu = self._cpu_of_agent()
            if cpu >= 0 and can_run[cpu] > 1:
                return
        if due != abi.NEVER:  # the kernel takes a timer that is very late for a lockup
            host = min(host, max(now, due) + LATE_NS)
        machine.board.set(now=host)

    def _pass_time(self) -> None:
        """Advance the clock to the next timer, when the host's is there."""
        machine = self.machine
        self.follow_host()
        machine.wait_from_here(LEAD_NS)
        host, now, due = machine.host_now(), machine.now(), machine.deadline()
        if not machine.quiet:
            if due > host + LEAD_NS:
                if self._look(REST_MS):
                    return
                host = machine.host_now()
                if due > host + LEAD_NS:
                    machine.board.set(now=max(now, min(host, due)))
                    return
            else:
                self._look(0)
        if due != abi.NEVER:
            machine.board.set(now=max(now, due))
        else:
            self._look(REST_MS)
