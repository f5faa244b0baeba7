# SPDX-License-Identifier: GPL-2.0-or-later
"""The past of a kernel, to go back to.

A run of the kernel depends on nothing but its state at the beginning. So this process
forks when a run begins, and where one goes on behind a stop, if the debugger has
written there or much has run since the last fork. The child is a *checkpoint*: it keeps
all there was, Python's objects too, at the cost of a millisecond, and waits. To look at
a moment of the past, the checkpoint before it forks in its turn: that process is a
*visit*. It repeats the run up to that moment, exactly, and answers questions there. The
kernel itself stands still meanwhile: it is the present, to which one comes back by
going on.

    the kernel      --+-----------+------------+--------> the present
    checkpoints       o           o            o
    visits            |           '-----> x
                      '---> x

What must always hold:
- The time from one checkpoint to the next is a *section*. Sections follow one another
  without a gap, else those before it are forgotten: what others do to the kernel
  between two runs, and the debugger at a stop, is in the state at the next checkpoint
  alone.
- A checkpoint and its visits touch nothing of the world: all their descriptors lead to
  /dev/null, but for a socket to this process, at whose end they end.
- A visit never leaves the run in which it was forked.
"""

from __future__ import annotations

import os
import signal
import socket
import time
import warnings
from collections import deque
from enum import Enum
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Protocol

from kpfs.emulator.stops import Moment, Stop, StopReason, Stops
from kpfs.gdb.debugged import HostClock

MAX_SECTIONS = 200
PATIENCE = 60.0  # s for a visit to answer
# The time that checkpoints at the beginning of runs may take, and that of those behind
# stops: so many s of processor time at once, and this share in the long run. What the
# host takes for them elsewhere, to copy pages and to end processes, is as much again.
BURST, SHARE = 1.0, 0.1
# blocks from a checkpoint to the next one behind a stop: a visit repeats as many
LONG = 20_000


class Guide(Protocol):
    """The debugger's side of a visit: which stops matter, and answers to packets."""

    def prepare(self, state: Any) -> None:
        """Take over what is set now: breakpoints and the like.  state: any object."""

    def passes(self, stop: Stop) -> bool:
        """Return True if a stop is of no interest."""

    def answer(self, question: Any) -> Any:
        """Answer at a moment of the past."""


class VisitGoal(Enum):
    """How a visit goes on."""

    TARGET = 0  # to a moment, past all else
    FORWARDS = 1  # up to what the debugger wants to know of
    COLLECT = 2  # to a moment; it notes the last thing before that


class _Order(NamedTuple):
    """An order to a visit."""

    way: VisitGoal
    state: Any
    target: Moment | None
    times: list[int]  # times of the host's clock, as read in the section
    again: bool  # a stop at the instruction where it stands counts
    trail: bool


class _Seen(NamedTuple):
    """The point that a visit has reached."""

    stop: Stop | None  # None: the end of the run
    before: Moment | None  # the instruction before
    last: Stop | None  # the last thing that it has noted
    before_last: Moment | None


class _Section:
    """The time from a checkpoint to the next one."""

    def __init__(self, channel: socket.socket, pid: int) -> None:
        self.channel = channel
        self.pid = pid
        self.times: list[int] = []
        self.end: Moment | None = None  # None: it is not over

    def visit(self) -> Visit:
        """Fork a visit of its beginning; EOFError if the checkpoint is gone."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self.channel, [b"!"], [theirs.fileno()])
            except OSError:
                raise EOFError("a checkpoint is gone") from None
        return Visit(Connection(ours.detach()), self)


class Visit:
    """A process that stands in the past.  EOFError: it has died."""

    def __init__(self, channel: Connection, section: _Section) -> None:
        self._channel = channel
        self.section = section
        self.moment: Moment | None = None  # None: the beginning
        self._is_new = True

    def go(
        self, way: VisitGoal, state: Any, target: Moment | None, *, trail: bool = False
    ) -> _Seen:
        again, self._is_new = self._is_new, False
        times = self.section.times
        self._channel.send(_Order(way, state, target, times, again, trail))
        seen: _Seen = self._receive()
        if seen.stop is not None:
            self.moment = seen.stop.moment
        return seen

    def ask(self, question: Any) -> Any:
        self._channel.send(question)
        return self._receive()

    def _receive(self) -> Any:
        try:
            if not self._channel.poll(PATIENCE):
                raise EOFError("a visit does not answer")
            return self._channel.recv()
        except OSError as error:
            raise EOFError(str(error)) from None

    def close(self) -> None:
        self._channel.close()


class _Budget:
    """The time that some checkpoints may take."""

    def __init__(self) -> None:
        self._left, self._filled_at = BURST, time.monotonic()

    def is_left(self) -> bool:
        now = time.monotonic()
        self._left = min(self._left + (now - self._filled_at) * SHARE, BURST)
        self._filled_at = now
        return self._left > 0

    def take(self, seconds: float) -> None:
        self._left -= seconds


class Arrival(NamedTuple):
    """The point in the past at which a command of gdb has arrived."""

    visit: Visit | None  # None: the present
    stop: Stop | None  # why; None: the past or the future ends here


class History:
    """Keeps the past of one engine; its stops are begun and ended by it.

    Context: on_begin, on_end and go_on in the thread that runs the kernel; all else
    while the kernel stands still.
    """

    def __init__(
        self, stops: Stops, guide: Guide, clock: HostClock | None = None
    ) -> None:
        self._stops = stops
        self._guide = guide
        self._clock = clock
        self._host = clock.host if clock else time.monotonic_ns
        self._sections: deque[_Section] = deque()
        self._current: _Section | None = None  # section of the run that is under way
        self._made_at = 0  # the block at which the last checkpoint was made
        self._gone: set[int] = set()  # pids of checkpoints that were left
        self._of_runs, self._of_stops = _Budget(), _Budget()
        self._visiting: _Visiting | None = None  # this process is a visit
        stops.on_begin, stops.on_end = self._begin, self._end
        if clock:
            clock.read_host_by(self._read_host)

    def close(self) -> None:
        """Forget all."""
        self._stops.on_begin = self._stops.on_end = lambda: None
        if self._clock:
            self._clock.read_host_by(self._host)
        self._forget()
        for pid in self._gone:
            _has_ended(pid, 0)
        self._gone.clear()

    @property
    def depth(self) -> int:
        """Return the number of sections to which one can go back."""
        return len(self._sections)

    # ---- while the kernel runs
    def _begin(self) -> None:
        if self._stops.counts() and self._of_runs.is_left():
            self._checkpoint(self._of_runs)
        else:
            self._forget()

    def _end(self) -> None:
        if self._visiting is not None:
            self._visiting.leave()
        section, self._current = self._current, None
        if section is not None:
            # if the host has ended the run, it would go on with this block
            section.end = Moment(self._stops.blocks + 1, self._stops.place())

    def go_on(self, moment: Moment, *, has_written: bool = False) -> None:
        """Make a checkpoint where a run goes on behind a stop, if it is of use.

        has_written: the debugger has changed memory or registers there.
        """
        is_old = self._current is None or self._stops.blocks - self._made_at >= LONG
        if not is_old and not has_written:
            return
        if self._stops.counts() and self._of_stops.is_left():
            if self._current is not None:
                self._current.end = moment
            self._checkpoint(self._of_stops)
        elif has_written:
            self._forget()

    def _checkpoint(self, budget: _Budget) -> None:
        """Fork.  It returns in this process, and in each visit."""
        begin = time.thread_time()
        ours, theirs = socket.socketpair()
        with warnings.catch_warnings():
            # other threads are in the middle of something, which no visit needs
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if not pid:
            ours.close()
            self._wait_for_visits(theirs)
            return
        theirs.close()
        self._current = _Section(ours, pid)
        self._sections.append(self._current)
        self._made_at = self._stops.blocks
        if len(self._sections) > MAX_SECTIONS:
            self._leave(self._sections.popleft())
        self._reap()
        # pages that are written are copied later, which takes as long again
        budget.take(2 * (time.thread_time() - begin))

    def _read_host(self) -> int:
        if self._visiting is not None:
            return self._visiting.read_host()
        value = self._host()
        if self._current is not None:
            self._current.times.append(value)
        return value

    def _forget(self) -> None:
        self._current = None
        while self._sections:
            self._leave(self._sections.popleft())
        self._reap()

    def _leave(self, section: _Section) -> None:
        section.channel.close()
        self._gone.add(section.pid)

    def _reap(self) -> None:
        for pid in list(self._gone):
            if _has_ended(pid, os.WNOHANG):
                self._gone.discard(pid)

    # ---- in a checkpoint
    def _wait_for_visits(self, channel: socket.socket) -> None:
        """Fork for each visit; return in these."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        _leave_world(channel.fileno())
        while True:
            try:
                asked, fds, _, _ = socket.recv_fds(channel, 1, 1)
            except OSError:
                asked, fds = b"", []
            if not asked:
                os._exit(0)
            if not os.fork():
                channel.close()
                self._visiting = _Visiting(Connection(fds[0]), self._stops, self._guide)
                self._visiting.obey()
                return
            os.close(fds[0])

    # ---- while the kernel stands still
    def back(
        self, visit: Visit | None, present: Moment | None, state: Any, *, step: bool
    ) -> Arrival | None:
        """Go back by an instruction, or to the last stop; None: nothing is known.

        visit: where one is now, None: in the present. present: its moment, None:
        between two runs. An arrival without a stop is the beginning of what is known.
        """
        sections = list(self._sections)
        target = present
        if visit is not None:
            sections = sections[: sections.index(visit.section) + 1]
            visit.close()
            target = visit.moment
            if target is None and len(sections) > 1:  # at the beginning of that one
                sections.pop()
        while sections:
            section = sections.pop()
            if visit is None or visit.moment or visit.section is not section:
                end = target or section.end
                goal, stop = self._find(section, end, state, step=step)
                if goal is not None:
                    return Arrival(self._at(section, goal, state), stop)
            if not sections:
                return Arrival(section.visit(), None)
            target = None
        return None

    def _find(
        self, section: _Section, target: Moment | None, state: Any, *, step: bool
    ) -> tuple[Moment | None, Stop | None]:
        """Find where going back ends in a section; (None, _): not in this one."""
        visit = section.visit()
        way = VisitGoal.TARGET if step else VisitGoal.COLLECT
        seen = visit.go(way, state, target, trail=step)
        visit.close()
        if step:
            goal = seen.before
            return goal, goal and Stop(StopReason.STEP, goal.address, block=goal.block)
        stop = seen.last
        if stop is None:
            return None, None
        # memory was changed by the instruction before, which has not run there
        return seen.before_last if stop.why is StopReason.ACCESS else stop.moment, stop

    def _at(self, section: _Section, moment: Moment, state: Any) -> Visit:
        visit = section.visit()
        visit.go(VisitGoal.TARGET, state, moment)
        return visit

    def forwards(self, visit: Visit, present: Moment | None, state: Any) -> Arrival:
        """Go on in the past up to the next stop, or to the present."""
        sections = list(self._sections)
        sections = sections[sections.index(visit.section) :]
        while True:
            seen = visit.go(VisitGoal.FORWARDS, state, sections[0].end or present)
            if seen.stop is not None and seen.stop.why is not StopReason.TARGET:
                return Arrival(visit, seen.stop)
            visit.close()
            del sections[0]
            if not sections:
                return Arrival(None, None)
            visit = sections[0].visit()


class _Visiting:
    """The part of a visit in its own process."""

    def __init__(self, channel: Connection, stops: Stops, guide: Guide) -> None:
        self._channel = channel
        self._stops = stops
        self._guide = guide
        self._order: _Order | None = None
        self._times: deque[int] = deque()
        self._last: Stop | None = None
        self._before_last: Moment | None = None
        stops.on_stop = self._stopped

    def obey(self) -> None:
        """Answer questions, until told to go on."""
        try:
            while not isinstance(asked := self._channel.recv(), _Order):
                self._channel.send(self._guide.answer(asked))
        except (EOFError, OSError):
            os._exit(0)
        if self._order is None:
            self._times.extend(asked.times)
        self._order = asked
        self._last = self._before_last = None
        stops = self._stops
        stops.clear()
        if asked.way is not VisitGoal.TARGET:
            self._guide.prepare(asked.state)
        stops.again = asked.again
        stops.stop_at(asked.target)
        stops.trail = asked.trail

    def read_host(self) -> int:
        """Return what the host's clock said at this look."""
        return self._times.popleft() if self._times else 0

    def _stopped(self, stop: Stop) -> None:
        assert self._order is not None
        if stop.why is not StopReason.TARGET:
            if self._guide.passes(stop):
                return
            if self._order.way is VisitGoal.COLLECT:
                self._last, self._before_last = stop, self._stops.before
                return
        self._tell(stop)
        self.obey()

    def _tell(self, stop: Stop | None) -> None:
        before = self._stops.before
        seen = _Seen(stop, before, self._last, self._before_last)
        try:
            self._channel.send(seen)
        except OSError:
            os._exit(0)

    def leave(self) -> None:
        """End with the run."""
        self._tell(None)
        os._exit(0)


def _has_ended(pid: int, flags: int) -> bool:
    """Wait for a child.  It has ended, too, where somebody else has waited for it."""
    try:
        return bool(os.waitpid(pid, flags)[0])
    except ChildProcessError:
        return True


def _leave_world(kept: int) -> None:
    """Have all descriptors but one lead to nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in (kept, nowhere):
            os.dup2(nowhere, int(name), inheritable=False)
    os.close(nowhere)
