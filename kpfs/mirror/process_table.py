# SPDX-License-Identifier: GPL-2.0-or-later
"""The processes of a command: which have a task in the kernel, and which are behind.

Calls that nobody could see in the kernel are left out there.  So a process's task falls
behind: it lacks descriptors, has an old name, or is not there at all.  Before anybody
may look, all tasks catch up with their processes.

What must always hold: a process whose call was left out stands in ``behind`` until its
task has caught up, or has ended if the process has.  So does one for whose calls there
is a fast path, as nobody notes these one by one.  Tasks are made, changed and ended
with the kernel's lock held; calls are left out without it.
"""

from __future__ import annotations

import contextlib

from kpfs.base.errors import KernelError
from kpfs.base.typed import TYPE_CHECKING, Generic, TypeVar
from kpfs.mirror.fast_path import NEVER, FastPath

if TYPE_CHECKING:
    from kpfs.base.lock import FairLock
    from kpfs.base.skip_policy import Seen
    from kpfs.mirror.host import Host
    from kpfs.mirror.seccomp import Notification

MEMBERS_MAX = 4096  # processes, before those that have ended unseen are forgotten
TaskT = TypeVar("TaskT")


class ProcessTable(Generic[TaskT]):
    """Implements kpfs.base.skip_policy.TaskBook.

    Each kind of kernel derives from it, and makes, ends and copies tasks.
    """

    def __init__(self, host: Host, lock: FairLock) -> None:
        """lock: the kernel's."""
        self.host = host
        self.fast_path = FastPath(lock)
        # processes that have made calls of which their tasks know nothing
        self.behind: set[int] = set()
        # Processes in a call that changes their descriptors and is not made.  Others
        # may look for them before it does.
        self.changing: set[int] = set()
        self.executed: set[int] = set()  # their user may be another one since
        self.begun = False  # a process has made a call

    # ---- what the kinds of kernels do; context: the lock is held
    def find(self, pid: int) -> TaskT | None:
        """Return the task of a process, which may be behind.  Context: any."""
        raise NotImplementedError

    def task(self, pid: int) -> TaskT:
        """Return the task of a thread, made if it has none."""
        raise NotImplementedError

    def begin(self, pid: int) -> None:
        """Note what the command has at its first call.  Context: any."""
        self.begun = True

    def bring(self, pid: int) -> None:
        """Make the task of a process that lives, or give it its name and user."""

    def copy(self, pid: int | None) -> None:
        """Give tasks what brought processes have; pid: to that of one process alone."""

    def end(self, pid: int) -> None:
        """End the task of a process that has ended, if it has one."""

    def is_in_call(self, _pid: int) -> bool:
        """Return True if a task is in a call whose result would be lost."""
        return False

    def share(self) -> None:
        """See kpfs.base.skip_policy.TaskBook."""

    def number_of(self, pid: int, path: bytes, flags: int, others: set[int]) -> int:
        """See kpfs.base.skip_policy.TaskBook."""
        return -1

    # ---- calls that are left out; context: any thread, the lock is not held
    def leave_out(self, pid: int) -> None:
        """Note that a process makes a call that its task does not."""
        if not self.begun:
            self.begin(pid)
        self.behind.add(pid)
        if len(self.behind) > MEMBERS_MAX:
            self._forget_ended()

    def leave_out_change(self, pid: int) -> None:
        """Note a call that changes a process's descriptors once it goes on."""
        self.leave_out(pid)
        self.changing.add(pid)
        if len(self.changing) > MEMBERS_MAX:
            self._forget_ended()

    def leave_out_exit(self, pid: int) -> None:
        """Note that a process ends unseen."""
        change = self.behind.discard if self.find(pid) is None else self.behind.add
        change(pid)
        self.forget(pid)

    def went_on(self, note: Notification) -> None:
        """Note a call that went on, while others may have brought tasks up to date.

        Context: the thread that receives.
        """
        if not self.fast_path.is_open:
            self.leave_out(note.pid)

    def note_ended(self) -> None:
        """Forget processes that have ended on the fast path.

        What is told here of one that has got a task, or gets it meanwhile, is what is
        told of one that was killed: it stays ``behind``, and the next look finds it.
        Context: the thread that receives, before it looks at a call.
        """
        path = self.fast_path
        turn, ended = path.turn, path.take_ended()
        for pid in ended:
            if turn != NEVER and self.find(pid) is None:
                self.behind.discard(pid)
            self.forget(pid)
        if path.turn != turn:
            self.behind.update(ended)

    def executes(self, pid: int) -> None:
        """Note that a process becomes another program, with other memory."""
        self.forget(pid)
        self.executed.add(pid)

    def forget(self, pid: int) -> None:
        """Forget what is known of a process's user, memory and files."""
        self.executed.discard(pid)
        self.fast_path.forget(pid)
        self.host.forget(pid)

    def _forget_ended(self) -> None:
        """Forget processes that have ended, but for those that have a task to end."""
        self.fast_path.close()  # it would let processes go on that get their numbers
        for pid in (*self.behind, *self.changing):
            if self.host.lives(pid):
                continue
            self.changing.discard(pid)
            self.forget(pid)
            if self.find(pid) is None:
                self.behind.discard(pid)

    # ---- catching up; context: the lock is held
    def catch_up(self, pid: int | None = None) -> None:
        if pid is not None:
            if pid in self.behind:
                self.bring(pid)
                self.copy(pid)
            return
        done, lives = set(), self.host.lives
        # those that have ended first: they make room
        for alive, each in sorted([(lives(each), each) for each in list(self.behind)]):
            if self.is_in_call(each):
                continue
            done.add(each)
            if alive:
                with contextlib.suppress(KernelError):  # no room for so many
                    self.bring(each)
            else:
                self.end(each)
        if done:
            self.behind -= done
            self.copy(None)

    def unchanged(self, seen: Seen | None) -> None:
        if seen is self.fast_path.seen:
            self.fast_path.stay()
