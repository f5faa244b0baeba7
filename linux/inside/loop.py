# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs a guest that has programs of its own: workers, time, what the host waits for.

A worker is a task of the agent that makes system calls for us, mostly such as wait: the
board stops as soon as one has done its request, and so nothing is ever polled.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Sequence

from kpfs.base import abi
from kpfs.linux.board.board import Board
from kpfs.linux.inside import runnable
from kpfs.linux.running.machine import AGENT, Machine, Op

LEAD_NS = 60_000_000  # of the guest's clock before the host's: nobody can tell
BEHIND_NS = 10_000_000
LATE_NS = 1_000_000_000
REST_MS = 10  # of sleep while nothing happens
# Between two pauses of the agent this many blocks of code run if nobody else does; the
# kernel's tick is about as much again.
QUIET_BLOCKS = 2_000
_KEEP = abi.KEEP_ID

Then = Callable[[], object]


class CallError(OSError):
    """A call that had to succeed did not."""


class Worker:
    """A task that makes calls for the host."""

    def __init__(self, loop: Loop, slot: int, pid: int) -> None:
        self._loop = loop
        self.slot = slot
        self.pid = pid

    @property
    def board(self) -> Board:
        return self._loop.machine.board

    @property
    def memory(self) -> memoryview:
        """Its data."""
        return self._loop.machine.memory(self.slot)

    def start(self, ops: Sequence[Op], then: Then, memory: bytes = b"") -> list[int]:
        """Begin with a request; then() follows when it is done."""
        places = self._loop.machine.start(self.slot, ops, memory)
        self._loop.expect(self.slot, then)
        return places

    def restart(self, ops: bytes, count: int, then: Then) -> None:
        """Begin with operations of a Batch, whose data are there."""
        self._loop.machine.begin(self.slot, ops, count)
        self._loop.expect(self.slot, then)

    def results(self, count: int) -> list[int]:
        return self._loop.machine.results(self.slot, count)

    def attempt(self, *ops: Op, memory: bytes = b"") -> list[int]:
        """Make calls, and wait until they are done: their results."""
        self.start(ops, lambda: None, memory)
        self.wait()
        return self.results(len(ops))

    def wait(self) -> None:
        """Until its request is done."""
        self._loop.run(lambda: not self._loop.expects(self.slot))

    def call(self, *ops: Op, memory: bytes = b"") -> list[int]:
        """The same; CallError if one of them fails."""
        results = self.attempt(*ops, memory=memory)
        for op, result in zip(ops, results, strict=True):
            if result < 0:
                raise CallError(-result, f"system call {op.nr} in the guest failed")
        return results

    def fork(self, name: str) -> Worker:
        """Another worker, which has all that this one has."""
        slot = self._loop.take_slot(name)
        (pid,) = self.call(Op(abi.AGENT_FORK, (slot, 0)))
        return Worker(self._loop, slot, pid)


class Loop:
    """Context: one thread, to which the machine belongs."""

    def __init__(self, machine: Machine, counts: Sequence[int] = ()) -> None:
        """counts: where those of tasks that can run are, if that is known."""
        self.machine = machine
        self._counts = counts
        self.agent = Worker(self, AGENT, 1)
        self._then: dict[int, Then] = {}
        self._free = list(range(abi.NR_SLOTS - 1, 0, -1))
        self._ready: dict[int, Then] = {}
        self._poll = select.poll()
        self._quiet_since = 0  # blocks at the last pause of the agent
        self.on_turn: Then = lambda: None  # now and then
        machine.others_run()

    # ---- workers
    def take_slot(self, name: str) -> int:
        slot = self._free.pop()
        self.machine.clear(slot, name.encode(), _KEEP, _KEEP)
        return slot

    def adopt(self, slot: int, pid: int) -> Worker:
        """A worker of a guest that goes on from where it was kept."""
        self._free.remove(slot)
        return Worker(self, slot, pid)

    def expect(self, slot: int, then: Then) -> None:
        self._then[slot] = then

    def expects(self, slot: int) -> bool:
        """Whether the worker of a slot has a request that is not done."""
        return slot in self._then

    def forget(self, worker: Worker) -> None:
        """It has become something else, or has ended."""
        self._then.pop(worker.slot, None)
        self.machine.forget(worker.slot)

    def release(self, worker: Worker) -> None:
        """It has ended: another one can have its slot."""
        self.forget(worker)
        self._free.append(worker.slot)

    def _finish(self, slot: int) -> bool:
        """If a worker has done its request: go on with what follows."""
        if not self.machine.has_done(slot):
            return False
        self._then.pop(slot)()
        return True

    # ---- what the host waits for
    def watch(self, fd: int, events: int, then: Then) -> None:
        """Call then() whenever poll() finds one of these events."""
        self._ready[fd] = then
        self._poll.register(fd, events)

    def unwatch(self, fd: int) -> None:
        if self._ready.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def _look(self, timeout_ms: int) -> bool:
        """Wait for the host; whether anything has happened there."""
        found = self._poll.poll(timeout_ms)
        for fd, _ in found:
            if then := self._ready.get(fd):
                then()
        self.on_turn()
        return bool(found)

    # ---- running
    def run(self, done: Callable[[], bool]) -> None:
        """Run the guest until done() is true; MachineDiedError if it dies."""
        while not done():
            self.step()

    def settle(self) -> None:
        """Run until the agent has its turn, and no worker has anything to tell."""
        while not self._advance():
            pass

    def step(self) -> None:
        """Run it up to the next thing that concerns us."""
        if self._advance():
            self._idle()

    def _advance(self) -> bool:
        """The same; whether the agent has come to its pause."""
        machine = self.machine
        why = machine.step()
        if why == abi.STOP_TURN:
            self.follow_host()
            self._look(0)
            return False
        if why != abi.STOP_PAUSE:
            raise machine.died(why)
        current = machine.current()
        if current:
            if not (current in self._then and self._finish(current)):
                machine.give_way()
            elif current not in self._then:
                machine.give_way()
            return False
        return not self._finish_any()

    def _finish_any(self) -> bool:
        """Whether any worker had something to tell that it could not tell at once."""
        finished = [self._finish(slot) for slot in list(self._then)]
        return any(finished)

    def _idle(self) -> None:
        """The agent has come to its pause: time passes if nobody else can run."""
        blocks = self.machine.board.get(abi.Board.blocks)
        ran, self._quiet_since = blocks - self._quiet_since, blocks
        # Nobody ran, but perhaps somebody can, whose turn it is when the agent has had
        # its share. Time that passed now would count as the agent's, which would then
        # have to wait for seconds: it is SCHED_IDLE.
        if ran < QUIET_BLOCKS and not self._others_can_run():
            self._pass_time()

    def _others_can_run(self) -> bool:
        return runnable.others(self.machine.board, self._counts)

    def follow_host(self) -> None:
        """Have the guest's clock not fall far behind the host's."""
        machine = self.machine
        host, now, due = machine.host_now(), machine.now(), machine.deadline()
        if machine.quiet or now + BEHIND_NS > host:
            return
        if due != abi.NEVER:  # a timer that is late for long is taken for a lockup
            host = min(host, max(now, due) + LATE_NS)
        machine.board.set(now=host)

    def _pass_time(self) -> None:
        """Up to the next timer: at once, if the host's clock is there, or waiting."""
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
