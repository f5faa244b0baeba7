# SPDX-License-Identifier: GPL-2.0-or-later
"""System calls of CMD, made again by tasks of a guest of our own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kpfs.guest.running.syscalls import BLOCKED
from kpfs.mirror import calls as mirror_calls
from kpfs.mirror.host import Host, trees_of
from kpfs.mirror.instead import Instead
from kpfs.mirror.left_out import LeftOut
from kpfs.mirror.plan import BUSY, MirrorGuest, Plan
from kpfs.mirror.seccomp import Notification
from kpfs.mirror.supervisor import Supervisor, await_listener, settled
from kpfs.mirror.tasks import Tasks
from kpfs.mirror.write import NAMES, Commit, TreeWriter
from kpfs.root.watched import EVERY

if TYPE_CHECKING:
    from kpfs.fs.booted import Booted
    from kpfs.fs.node import Dir
    from kpfs.fs.tree import Writers
    from kpfs.guest.running.syscalls import HostTask
    from kpfs.root.guest_kernel import GuestKernel
    from kpfs.root.watched import Seen

log = logging.getLogger(__name__)

MADE_UNSEEN = 32  # calls that are made though unseen, after one that can be seen
# how often a call is put off until the mount has closed a file
ATTEMPTS = 3
_WAITS = (*[True] * ATTEMPTS, False)  # and then it is made all the same


class Replayer:
    """Makes a host's system call in the guest."""

    def __init__(
        self,
        kernel: GuestKernel,
        host: Host,
        writers: Writers | None = None,
        instead: Instead | None = None,
        *,
        lazy: bool = False,
    ) -> None:
        """writers: what the mount asks at each write; instead: answers for the host.

        lazy: calls that nobody would see in the guest are not made there.
        """
        self.kernel = kernel
        self.host = host
        with kernel.lock:
            self.guest = MirrorGuest(kernel.guest)
            self.tasks = Tasks(kernel, host)
        self.task = self.tasks.task
        self.write = TreeWriter(
            kernel, host, {} if writers is None else writers, self.task
        )
        self.lazy = lazy
        self.left_out = LeftOut(self.tasks, host, self.write, instead)
        self.made = 0  # calls in a row that were made, though nobody could see them

    def skip(self, note: Notification) -> bool:
        """Whether the guest need not make a call, as nobody could see it there.

        Context: the thread that receives, the lock is not held.
        """
        if not self.lazy:
            return False
        seen = self.kernel.watched.seen
        if seen is EVERY or not self.is_unseen(note.nr, seen):
            return False
        return self.left_out.skip(note)

    def is_unseen(self, nr: int, seen: Seen | None) -> bool:
        """Whether a call need not be made, as none is that could be seen now.

        seen: see Watched.  Where there are such calls, others are made too for a while
        after one: to bring tasks up to date, before the next one, costs more.
        """
        if seen is None or nr in seen:
            return False
        return not seen or self.made >= MADE_UNSEEN

    def may_leave_out(self, nr: int) -> bool:
        """Decide on a call; before one that is to be made all tasks are up to date."""
        watched = self.kernel.watched
        seen = watched.seen
        if seen is None:
            with self.kernel.lock:
                seen = watched.update()
        if seen is EVERY:
            self.made = 0
        elif self.is_unseen(nr, seen):
            return True
        else:
            self.made = 0 if nr in seen else self.made + 1
        if self.tasks.behind:
            with self.kernel.lock:
                self.tasks.catch_up()
        return False

    def may_wait(self, note: Notification) -> bool:
        """Whether it may take long to make a call: others are to be received meanwhile.

        Context: the thread that receives, the lock is not held.
        """
        return self.kernel.lock.taken() or (
            note.nr in NAMES and self.left_out.looks.fd_in_tree(note.pid, note.args[0])
        )

    def __call__(self, note: Notification, commit: Commit) -> int | None:
        """See Replay.  Context: control, the lock is not held."""
        nr, pid = note.nr, note.pid
        if self.lazy and self.may_leave_out(nr):
            return self.left_out.make(note, commit)
        try:
            plan = mirror_calls.plan_call(self.host, note)
        except mirror_calls.NotMirrored:
            value = self.write(note, commit) if nr in NAMES else None
            if value is None:
                with self.kernel.lock:
                    self.task(pid)
            return value
        for wait in _WAITS:
            with self.kernel.lock:
                if nr in mirror_calls.EXITS and self.kernel.guest.forks_seen():
                    self.tasks.meet_children(pid)
                if self.make(self.task(pid), plan, wait) != BUSY:
                    if nr in mirror_calls.EXECS:
                        self.left_out.executes(pid)
                    break
            self.host.await_mount()
        if nr in mirror_calls.EXITS:
            self.left_out.forget(pid)
        if nr not in self.left_out.instead_of:
            return None
        return self.left_out.answer(note, commit, plan.text)

    def follow(self, kernel: GuestKernel, _root: Dir) -> None:
        """Make the calls in another kernel from now on, by tasks that are made there.

        Context: control, lock held.
        """
        self.kernel, self.guest = kernel, MirrorGuest(kernel.guest)
        self.tasks.enter(kernel)

    def make(self, task: HostTask, plan: Plan, wait: bool = False) -> int:
        """Have a task make a call: its value, -errno.  wait: see MirrorGuest.call()."""
        try:
            ret = self.guest.call(task, plan, wait)
        finally:
            self.kernel.background.guest_ran()
        if ret == BLOCKED:
            log.warning("mirrored call %d of %d sleeps", plan.nr, task.pid)
        return ret


def serve(
    booted: Booted,
    channel: int,
    source: str,
    writers: Writers,
    instead: Instead | None = None,
    *,
    lazy: bool = False,
) -> None:
    """Await a listener on a socket, and supervise: the body of a thread.

    source is what the mount table calls the mount; writers: see TreeWriter; lazy: see
    Replayer.
    """
    try:
        received = await_listener(channel)
        if received is None:
            return
        listener, state = received
        if instead is not None:
            instead.listener = listener
        host = Host(trees_of(source))
        with booted.kernel.lock:
            replayer = Replayer(booted.kernel, host, writers, instead, lazy=lazy)
            booted.follow(replayer.follow)
        Supervisor(
            listener,
            state,
            replayer,
            settled,
            replayer.skip,
            replayer.may_wait,
        ).run()
    except Exception:
        log.exception("the supervisor of system calls failed")
