# SPDX-License-Identifier: GPL-2.0-or-later
"""The supervisor of ``kpfs run``: makes CMD's system calls in the emulated kernel, too.

A seccomp filter reports each call that may matter.  A thread receives the report, has
the call made by the task that stands for its process, and lets the host go on.

One thread for all would fail twice.  While a report is not received, a signal whose
handler lacks SA_RESTART interrupts the caller: it gets EINTR where Linux gives none.
And one call that waits in the emulated kernel would hold up all others.  So one of some
threads always waits for the next report.  To hand over costs more than most calls, so
the thread that has received a call makes it first, if it cannot wait.  While a thread
waits for the answer to a call, another takes its place; so it does when a call keeps
the kernel busy, and the thread steps aside from its lock.  A call that just takes long
is noticed by a thread that looks after all, while calls come.

Threads make calls side by side, and nothing but the kernel's lock has them wait for one
another.  A lock of our own around a whole call was a mistake: a call may wait for locks
of the host's kernel, and those for a thread that wanted that lock (kpfs.base.lock has
the order).  It may also wait for a file system that a process of the command serves,
whose own calls must be made meanwhile.

Invariants: A received report stands in a slot of shared memory until it is answered;
keeper.py answers it if this process does not.  The end of a process is held up until
its parent can take the signal, but for SETTLE_PATIENCE at most.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import signal
import threading
import time
from collections.abc import Callable
from threading import get_ident

from kpfs.base import abi
from kpfs.base import syscall_numbers as nr
from kpfs.base.errors import KernelError
from kpfs.base.lock import FairLock, Stepping
from kpfs.base.log import Log
from kpfs.host.channel import Socket, receive_fds
from kpfs.mirror import seccomp
from kpfs.mirror.fast_path import FastPath
from kpfs.mirror.host import standing
from kpfs.mirror.keeper import (
    COMMITTED,
    GAVE_UP,
    SLOT,
    SLOTS,
    SLOTS_MAX,
    SLOTS_SIZE,
    STATE_SIZE,
    TAKEN_OVER_AT,
    WAITS,
    WORK,
)
from kpfs.mirror.kernel import Commit, Replayed
from kpfs.mirror.seccomp import Notification

log = Log(__name__)

SETTLE_PATIENCE = 0.1  # s that the end of a process is held up at most
FIRST_PAUSE = 0.0001
LOOK = 0.01  # s between looks whether a call takes long
NOT_MADE = 1 << 64  # no answer that there can be
# makes a call in the emulated kernel
Replay = Callable[[Notification, Commit], Replayed]
# says something of a call when it is received
Judge = Callable[[Notification], bool]
# tells whether a process that is to end may do so: its parent can take the signal
Settled = Callable[[Notification, Callable[[int], bool]], bool]


class _Work:
    """The call that the thread of a slot makes: others go on if it takes long.

    Implements kpfs.base.lock.Stepping.
    """

    def __init__(self, supervisor: Supervisor, slot: int) -> None:
        self._supervisor = supervisor
        self._slot = slot
        self._guard = threading.Lock()  # guards the rest, and the end of the call
        self._note: Notification | None = None  # while a call is made
        self._seen: Notification | None = None  # at the last look
        self._replaced = False

    def begin(self, note: Notification) -> None:
        supervisor = self._supervisor
        self._note = note
        supervisor.stepping[get_ident()] = self
        if not supervisor.made.is_set():
            supervisor.made.set()

    def end(self) -> None:
        supervisor = self._supervisor
        del supervisor.stepping[get_ident()]
        with self._guard:
            self._note = None
            replaced, self._replaced = self._replaced, False
        if replaced:
            supervisor.was_replaced()

    def aside(self) -> None:
        with self._guard:
            self._hand_on()

    def look(self) -> bool:
        """Have others go on if the call has not ended since the last look.

        Return True if it is to be looked at again.
        """
        with self._guard:
            note, seen = self._note, self._seen
            self._seen = note
            if note is not None and note is seen:
                self._hand_on()
            return note is not None and not self._replaced

    def _hand_on(self) -> None:
        supervisor, note = self._supervisor, self._note
        supervisor.stop_receiving(self._slot)
        if note is not None and not self._replaced:
            supervisor.show_waiting(self._slot, note)
            self._replaced = supervisor.replace()

    def commit(self) -> bool:
        """See Commit."""
        supervisor, note = self._supervisor, self._note
        assert note is not None
        at = self._slot * SLOT.size
        WORK.pack_into(supervisor.state, at, note.id, COMMITTED)
        return seccomp.is_valid(supervisor.listener, note.id)


class Supervisor:
    """The threads that receive reports, have them replayed, and answer in any case."""

    def __init__(
        self,
        listener: int,
        state: mmap.mmap,
        replay: Replay,
        settled: Settled | None = None,
        skip: Judge = lambda _note: False,
        may_wait: Judge = lambda _note: True,
        stepping: dict[int, Stepping] | None = None,
        fast_path: FastPath | None = None,
        went_on: Callable[[Notification], object] = lambda _note: None,
    ) -> None:
        """skip: True if nothing is to do for a call.  may_wait: if it may take long.

        stepping: that of the kernel's lock.  fast_path: of calls that need not be
        skipped one by one.  went_on: is told of skipped calls that have gone on.
        """
        self.fast_path = FastPath(FairLock()) if fast_path is None else fast_path
        self.went_on = went_on
        self.reports = [seccomp.report() for _ in range(SLOTS_MAX)]  # by slot
        slots = ctypes.addressof(ctypes.c_char.from_buffer(state))
        self.fast_path.watch(slots, SLOTS_MAX)
        self.addresses = [  # for each slot and its report
            (slots + slot * SLOT.size, ctypes.addressof(report))
            for slot, report in enumerate(self.reports)
        ]
        self.stepping = {} if stepping is None else stepping
        self.listener = listener
        self.skip = skip
        self.may_wait = may_wait
        self.receiving = threading.Lock()  # a report wakes all threads that wait for it
        self.receiver = -1  # the slot whose thread has that
        self.abandoned = False  # nobody has the filter any more
        self.state = state
        self.replay = replay
        self.settled = settled
        self.works = [_Work(self, slot) for slot in range(SLOTS_MAX)]
        self.made = threading.Event()  # there is a call to look after
        self.over = threading.Event()
        # threads that may wait in settle(); the others go on receiving
        self.settling = threading.Semaphore(SLOTS - 2)
        self.guard = threading.Lock()  # guards the next two
        self.spare = list(range(SLOTS_MAX - 1, SLOTS - 1, -1))  # slots
        self.waiting = 0  # threads that wait for an answer
        self.threads: list[threading.Thread] = []
        self.starting = threading.Lock()
        self.broken = False  # the kernel is dead: calls are only let go on

    def run(self) -> None:
        """Receive and answer reports until no process has the filter."""
        for slot in range(1, SLOTS):
            self.start_loop(slot)
        after = threading.Thread(target=self.look_after, daemon=True)
        after.start()
        self.loop(0)
        while True:
            with self.starting:  # none that has not begun can be waited for
                if not self.threads:
                    break
                thread = self.threads.pop()
            thread.join()
        self.over.set()
        self.made.set()
        after.join()

    def look_after(self) -> None:
        """Have other threads go on while a call takes long: the body of a thread."""
        while self.made.wait():
            self.made.clear()  # first: it is set for the end, too
            if self.over.wait(LOOK):
                return
            if True in [work.look() for work in self.works]:  # each of them
                self.made.set()

    def start_loop(self, slot: int) -> None:
        thread = threading.Thread(target=self.loop, args=(slot,), daemon=True)
        with self.starting:
            self.threads.append(thread)
            thread.start()

    def loop(self, slot: int) -> None:
        """Handle reports until there are no more: the body of one thread."""
        try:
            while True:
                self.receiving.acquire()
                self.receiver = slot
                try:
                    note, value = self.handle(slot)
                finally:
                    self.stop_receiving(slot)
                if note is None:
                    return
                self.complete(slot, note, value)
                if self.is_superfluous(slot):
                    return
        except BaseException:
            at = slot * SLOT.size
            last, _, _ = SLOT.unpack_from(self.state, at)  # which the keeper lets go on
            SLOT.pack_into(self.state, at, last, 0, GAVE_UP)
            raise

    def stop_receiving(self, slot: int) -> None:
        """Let another thread receive, if that of this slot does."""
        if self.receiver == slot:
            self.receiver = -1
            self.receiving.release()

    def receive(self, slot: int, made: bool) -> Notification | None:
        """Return the next report that is not skipped, shown as in work, or None.

        made: first let the slot's call go on.
        """
        listener, at = self.listener, slot * SLOT.size
        report, (slot_at, report_at) = self.reports[slot], self.addresses[slot]
        receive = self.fast_path.receive
        while not self.abandoned:
            try:
                result = receive(listener, slot_at, report_at, made)
            except OSError as error:
                made = False
                if error.errno not in seccomp.NOT_RECEIVED:
                    raise
                self.abandoned = seccomp.is_abandoned(listener)
                continue
            note = seccomp.parse(report)
            if result != abi.FAST_PATH_LATE:
                if not self.skip(note):
                    return note
                seccomp.let_go_on(listener, note.id)
                WORK.pack_into(self.state, at, note.id, 0)
            made = False
            self.went_on(note)
        return None

    def handle(self, slot: int) -> tuple[Notification | None, Replayed]:
        """Receive, replay and answer reports, up to one for which nobody is to wait.

        That, None if there are no more, and what its replay gave: NOT_MADE if it was
        not replayed.  Context: ``receiving`` is held, and perhaps not at the end.
        """
        made = False  # and the call is to go on
        while note := self.receive(slot, made):
            if self.may_wait(note):
                return note, NOT_MADE
            value = self.make(slot, note)
            ends = note.nr == nr.EXIT_GROUP
            if callable(value) or (ends and not self.is_settled(note)):
                return note, value
            if self.receiver != slot:
                return note, value
            made = value is None
            if not made:
                self.answer(slot, note, value)
        return None, None

    def complete(self, slot: int, note: Notification, value: Replayed) -> None:
        """Do the rest for what handle() gave.  Context: ``receiving`` is not held."""
        if value == NOT_MADE:
            value = self.make(slot, note)
        if callable(value):
            self.show_waiting(slot, note)
            value = self.waited_for(note, value)
        if note.nr == nr.EXIT_GROUP and self.settling.acquire(False):
            try:
                self.settle(note)
            finally:
                self.settling.release()
        self.answer(slot, note, value)

    def show_waiting(self, slot: int, note: Notification) -> None:
        """Tell the keeper that a report takes as long as it must."""
        WORK.pack_into(self.state, slot * SLOT.size, note.id, WAITS)

    def make(self, slot: int, note: Notification) -> Replayed:
        """Replay one report; return None, so that the call goes on, if that fails."""
        work = self.works[slot]
        work.begin(note)
        try:
            if self.broken or self.state[TAKEN_OVER_AT]:
                return None  # and so will others: better none than some
            return self.replay(note, work.commit)
        except Exception as error:
            self.failed(note, error)
        finally:
            work.end()
        return None

    def failed(self, note: Notification, error: Exception) -> None:
        """Say why a report's work was not done.  Context: it is just handled."""
        if isinstance(error, KernelError):
            log.debug("call %d of %d: %s", note.nr, note.pid, error)
        else:
            # with a dead kernel every call would be logged
            self.broken = True
            log.exception("system calls are not mirrored any more")

    def answer(self, slot: int, note: Notification, value: Replayed) -> None:
        """Give the caller its call's value, or let the call go on."""
        if isinstance(value, int):
            seccomp.answer(self.listener, note.id, value)
        else:
            seccomp.let_go_on(self.listener, note.id)
        WORK.pack_into(self.state, slot * SLOT.size, note.id, 0)

    def waited_for(self, note: Notification, rest: Callable[[], int]) -> int | None:
        """Do what is left of a call; None, so that it goes on, if that fails."""
        try:
            return self.wait(rest)
        except Exception as error:
            self.failed(note, error)
        return None

    def wait(self, rest: Callable[[], int]) -> int:
        """Wait for an answer, while another thread receives; EAGAIN: too many do."""
        if not self.replace():
            return -errno.EAGAIN
        try:
            return rest()
        finally:
            self.was_replaced()

    def replace(self) -> bool:
        """Start another thread for one that is to take long, if there can be more."""
        with self.guard:
            if not self.spare:
                return False
            slot = self.spare.pop()
            self.waiting += 1
        self.start_loop(slot)
        return True

    def was_replaced(self) -> None:
        """Note that a thread does not take long any more."""
        with self.guard:
            self.waiting -= 1

    def is_superfluous(self, slot: int) -> bool:
        """Return True if a thread can end that replaced one that has waited."""
        with self.guard:
            extra = SLOTS_MAX - SLOTS - len(self.spare)
            if slot < SLOTS or extra <= self.waiting:
                return False
            self.spare.append(slot)
            with contextlib.suppress(ValueError):  # somebody waits for it
                self.threads.remove(threading.current_thread())
            return True

    def is_settled(self, note: Notification) -> bool:
        """Return True if the process may end now; the call is its end."""
        return self.settled is None or self.settled(note, self.may_be_in_work)

    def settle(self, note: Notification) -> None:
        """Wait, not for long, until the parent of a process that is to end sleeps."""
        pause, deadline = FIRST_PAUSE, time.monotonic() + SETTLE_PATIENCE
        while not self.is_settled(note):
            if time.monotonic() > deadline:
                return
            time.sleep(pause)
            pause *= 2

    def may_be_in_work(self, pid: int) -> bool:
        """Return True if a process may wait for an answer, received already or not."""
        slots = list(SLOT.iter_unpack(self.state[:SLOTS_SIZE]))
        return seccomp.has_reports(self.listener) or any(
            begin and seccomp.parse(report).pid == pid
            for (_, begin, _), report in zip(slots, self.reports, strict=True)
        )


def settled(note: Notification, busy: Callable[[int], bool]) -> bool:
    """Return True if the parent of a process that is to end sleeps outside our calls.

    Or is not interested.  busy: tells whether a process may be in one, which SIGCHLD
    could interrupt.
    """
    parent = standing(standing(note.pid).parent)
    if not parent.catches(signal.SIGCHLD):
        return True
    return not busy(parent.pid) and parent.sleeps


def await_listener(channel: int) -> tuple[int, mmap.mmap] | None:
    """Return the listener that a runner sends, and the memory shared with the keeper.

    None: the command could not be filtered, or is gone.
    """
    with contextlib.closing(Socket(fileno=channel)) as sock:
        fds = receive_fds(sock, 2)
    if len(fds) != 2:
        return None
    listener, shared = fds
    seccomp.wake_up_synchronously(listener)
    return listener, mmap.mmap(shared, STATE_SIZE)
