# SPDX-License-Identifier: GPL-2.0-or-later
"""Keep the command going if the supervisor of its system calls fails.

A process of its own holds the listener too.  It sleeps until the supervisor is dead or
stuck, and from then on lets every call go on; it ends with the last process that has
the filter.  Without it these would get ENOSYS for an answer, or none.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import select
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from kpfs.base import abi, host_process
from kpfs.base.errors import KernelError
from kpfs.host import hints, mounts, process
from kpfs.host.channel import Socket, pair, receive_fds, send_fds
from kpfs.mirror import seccomp

# A slot of one of the supervisor's threads: the report in work, when it was received
# (ns of the monotonic clock, 0: none is in work, COMMITTED: it takes as long as it must
# and while the supervisor lives nobody else may answer), how many it has received.
SLOT = abi.Slot.STRUCT
WORK = struct.Struct("=QQ")  # all but the last, which counts up while it is received
SLOTS = 4  # few, as each report wakes all threads that wait for one
SLOTS_MAX = 32  # more are there for calls that wait: see kpfs.mirror.supervisor
SLOTS_SIZE = SLOTS_MAX * SLOT.size
# behind the slots: 1 while a debugger has stopped the kernel, and calls wait for it
_SUSPENDED_AT = SLOTS_SIZE
TAKEN_OVER_AT = SLOTS_SIZE + 1  # 1 once the keeper lets calls go on
STATE_SIZE = SLOTS_SIZE + 2
GAVE_UP = (1 << 64) - 1  # in place of the number of reports
COMMITTED = (1 << 64) - 1  # in place of the time of receipt
WAITS = COMMITTED - 1  # likewise: committed, and in nobody's way
PATIENCE = 5.0  # s in which a report must be answered
TICK = 0.5  # s between looks
READY = b"r"  # from the command to the runner: a filter is being installed
STUCK_LINE = (
    "from some point on, system calls were not made in the kernel: kpfs did not answer "
    f"one for {PATIENCE:g} s"
)
NEXT_REPORTS = 8  # the one in work may be that much after the last that was shown


def suspend(state: mmap.mmap, suspended: bool) -> None:
    """Have calls wait for as long as a debugger has stopped the kernel, or no longer.

    state: what supervisor and keeper share.
    """
    state[_SUSPENDED_AT] = suspended


class SupervisorWatch:
    """The test for a supervisor that is stuck."""

    def __init__(self, listener: int, state: mmap.mmap) -> None:
        self.listener = listener
        self.state = state
        self.received: list[int] = []
        self.waiting_since: float | None = None  # for it to receive another report
        self.resumed = 0.0  # when the kernel has been stopped last

    def is_stuck(self) -> bool:
        """Return True if it is stuck; to be asked at short intervals."""
        slots = list(SLOT.iter_unpack(self.state[:SLOTS_SIZE]))
        now = time.monotonic()
        if self.state[_SUSPENDED_AT]:
            self.resumed, self.waiting_since = now, None
            return False
        received = [count for _, _, count in slots]
        begins = [begin for _, begin, _ in slots if begin not in (0, WAITS)]
        if GAVE_UP in received:
            return True
        working = COMMITTED in begins  # the others wait for it
        first = min(begins, default=now * 1e9)
        if not working and now - max(first / 1e9, self.resumed) > PATIENCE:
            return True
        if (
            working
            or received != self.received
            or not seccomp.has_reports(self.listener)
        ):
            self.received = received
            self.waiting_since = None
            return False
        if self.waiting_since is None:
            self.waiting_since = now
        return now - self.waiting_since > PATIENCE


def keep(
    listener: int,
    state: mmap.mmap,
    supervisor: int,
    abort: Callable[[], object] = lambda: None,
    tell: Callable[[str], object] = lambda _line: None,
) -> None:
    """Watch the supervisor's process until no process has the filter.

    tell: is told if it is stuck.  abort: makes the mount fail all requests.  Without
    that a thread which waits for an answer of its own mount (kpfs.mirror.write) cannot
    end when the others have died.
    """

    def look() -> None:
        if is_dying(supervisor):
            abort()

    watch = SupervisorWatch(listener, state)
    waiting = select.poll()
    waiting.register(listener, 0)  # POLLHUP is reported without being asked for
    try:
        alive = os.pidfd_open(supervisor)
    except OSError:
        alive = -1
    else:
        waiting.register(alive, select.POLLIN)
    while alive >= 0:
        events = dict(waiting.poll(TICK * 1000))
        if events.get(listener, 0) & select.POLLHUP:
            return
        if alive in events:
            alive = -1
        elif watch.is_stuck():
            tell(STUCK_LINE)
            break
        else:
            look()
    take_over(listener, state, alive, look)


def is_dying(pid: int) -> bool:
    """Return True if a process was killed, but not all of its threads have ended."""
    status = host_process.status(pid)
    dying = status.get(b"CoreDumping") == b"1"
    return dying or status.get(b"State", b"R")[:1] in b"ZX"


def take_over(
    listener: int,
    state: mmap.mmap,
    alive: int = -1,
    look: Callable[[], object] = lambda: None,
) -> None:
    """Let the reports in work go on, and all that follow.

    alive: pidfd of a supervisor that is stuck; look: called now and then until it dies.
    """
    waiting = select.poll()
    waiting.register(listener, select.POLLIN)
    if alive >= 0:
        waiting.register(alive, select.POLLIN)
    state[TAKEN_OVER_AT] = 1
    _release(listener, state, alive < 0)
    while True:
        events = dict(waiting.poll(TICK * 1000 if alive >= 0 else None))
        if alive in events:
            waiting.unregister(alive)
            alive = -1
            _release(listener, state, True)
        elif alive >= 0:
            look()
        if events.get(listener, 0) & select.POLLHUP:
            return
        note = seccomp.receive(listener) if listener in events else None
        if note is not None:
            seccomp.let_go_on(listener, note.id)


def _release(listener: int, state: mmap.mmap, dead: bool) -> None:
    """Let the calls go on that the supervisor had in work.

    dead: it is dead, so those too that it has committed itself to.
    """
    slots = list(SLOT.iter_unpack(state[:SLOTS_SIZE]))
    kept = () if dead else (COMMITTED, WAITS)
    spared = {last for last, begin, _ in slots if begin in kept}
    for last, _, _ in slots:
        for ident in range(last, last + NEXT_REPORTS + 1):
            if ident not in spared:
                seccomp.let_go_on(listener, ident & GAVE_UP)


# ---- the runner's side
class Filter:
    """The filter of a command, to be made before the fork that becomes it."""

    def __init__(
        self,
        channel: Socket,
        supervisor: int,
        mountpoint: str,
        calls: Iterable[int],
        told: int = -1,
        meanings: Mapping[int, Sequence[int]] = seccomp.NO_MEANINGS,
    ) -> None:
        """channel: leads to the supervisor's process.  calls: numbers, to report.

        told: see kpfs.host.hints.  meanings: see seccomp.build_filter().
        """
        self.told = told
        self.meanings = meanings
        self.channel = channel
        self.calls = tuple(calls)
        self.supervisor = supervisor
        self.mountpoint = mountpoint
        self.ours, self.commands = pair()

    def install(self) -> None:
        """Put the filter on this process, which is to be the command."""
        self.ours.close()
        try:
            # with the filter nothing may go wrong: each call waits for an answer
            self.commands.sendmsg((READY,))
            listener = seccomp.install_listener(self.calls, self.meanings)
        except (KernelError, OSError) as error:
            reason = os.strerror(error.errno or 0)
            if error.errno == errno.EBUSY:
                reason = "another process has them, as of a 'kpfs run' around this one"
            print(f"kpfs: system calls are not mirrored: {reason}", file=sys.stderr)
            return
        # each call from here on waits until the runner has given the listener on
        send_fds(self.commands, b"l", [listener])
        # and not for ever, if the runner dies before that: nobody holds it then
        seccomp.close_unreported(listener)

    def hand_over(self) -> None:
        """Give the listener to the supervisor, and have it watched; in the runner."""
        self.commands.close()
        with contextlib.closing(self.ours), contextlib.closing(self.channel):
            fds: list[int] = []
            if self.ours.recv(len(READY)):
                fds = receive_fds(self.ours, 1)
            for listener in fds:
                supervised = self.channel, self.supervisor, self.mountpoint
                start(listener, *supervised, self.told)
                os.close(listener)


def start(
    listener: int, channel: Socket, supervisor: int, mountpoint: str, told: int = -1
) -> int:
    """Start a keeper, give the listener to the supervisor; return the keeper's pid.

    told: see kpfs.host.hints.
    """
    shared = _memory()
    os.ftruncate(shared, STATE_SIZE)
    state = mmap.mmap(shared, STATE_SIZE)
    keeper = os.fork()
    if not keeper:
        try:
            _become_keeper(listener, told)
            abort = partial(mounts.abort, mountpoint)
            tell = partial(hints.add, told, if_failed=False)
            keep(listener, state, supervisor, abort, tell)
        finally:
            os._exit(0)
    with contextlib.suppress(OSError):  # it is dead: the keeper finds out
        send_fds(channel, b"l", [listener, shared])
    state.close()
    os.close(shared)
    return keeper


def _memory() -> int:
    """Open a file of our own; on a disk where memfd_create() is denied."""
    try:
        return os.memfd_create("mirror")
    except OSError:
        import tempfile

        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno())


def _become_keeper(*kept: int) -> None:
    """Leave the terminal, and all that the runner has open."""
    os.setsid()
    os.chdir("/")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    process.rename("kpfs-keeper")
    process.close_all_but(set(kept))
