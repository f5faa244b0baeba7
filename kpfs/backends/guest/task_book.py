# SPDX-License-Identifier: GPL-2.0-or-later
"""The tasks of a guest kernel that a command's processes have.

A task is made at the first call of its process that is made in the guest.  If calls
were left out, catching up brings the task to the state of its process: it exists or has
ended; it has the process's parent, user and name; its descriptors lead to open files of
that kind, and are shared by the tasks of those processes that share them on the host.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kpfs.base import abi
from kpfs.base.errors import KernelError
from kpfs.guest.running.syscalls import BUSY_PAUSE
from kpfs.mirror.host import same_open_file
from kpfs.mirror.plan import MAX_FD

if TYPE_CHECKING:
    from kpfs.guest.running.syscalls import HostTask
    from kpfs.mirror.host import Descriptor, Host
    from kpfs.root.guest_kernel import GuestKernel

_FD = abi.MirrorFd.STRUCT
Record = tuple[int, int, int, int, int, bool, int, bool]
# descriptors of processes, by the link that /proc shows
OpenFiles = dict[bytes, "list[tuple[int, Descriptor]]"]
BLOCK_SIZE = 0x8000  # of descriptors and their files' names, in one call
MEMBERS_MAX = 4096  # processes, before those that have ended unseen are forgotten


class GuestTaskBook:
    """Implements kpfs.mirror.kernel.TaskBook.  Context: control, lock held."""

    def __init__(self, kernel: GuestKernel, host: Host) -> None:
        self.host = host
        self.known: dict[int, HostTask] = {}  # of the processes seen so far
        # Processes that have made calls of which their tasks know nothing.  Only this
        # is used without the lock, by leave_out().
        self.behind: set[int] = set()
        # pipes that the command started with; no task has their other end
        self.foreign: set[bytes] | None = None
        self.installing = False  # the block is in use
        self.other_users: set[int] = set()  # processes whose user may have changed
        self.enter(kernel)

    def enter(self, kernel: GuestKernel) -> None:
        """Use another kernel from now on, where no process has a task."""
        self.kernel = kernel
        self.behind.update(self.known)
        self.known = {}
        guest = kernel.guest
        func = guest.address_of("mirror_catch_up")
        if func is None:
            raise KeyError("mirror_catch_up")
        self.func = func
        self.block = guest.area.alloc_data(BLOCK_SIZE)
        self.view = guest.view(self.block, BLOCK_SIZE)
        kernel.skip_policy.join_tasks(self, self.number_of)

    # ---- one task
    def knows(self, pid: int) -> bool:
        return pid in self.known

    def task(self, pid: int) -> HostTask:
        """Return the task of a thread of the host.

        If it has none yet, its creator's task forks in the guest.
        """
        task = self.known.get(pid)
        if task is not None and not task.gone:
            uid = task.uid
            if pid in self.other_users:
                uid = self.host.uid(pid)
                self.other_users.discard(pid)
            task = self.known[pid] = self.kernel.syscalls.task_of(pid, uid)
            return task
        self.forget_dead()
        creator = self.host.creator(pid)
        if creator in self.behind and creator not in self.known:
            self.task(creator)
        uid = self.host.uid(pid)
        self.kernel.guest.syscalls.host_task(pid, uid, parent=creator)
        task = self.known[pid] = self.kernel.syscalls.task_of(pid, uid)
        if self.foreign is None:
            self.begin(pid)
        if creator not in self.known:
            self.copy_descriptors([pid], {})
        return task

    def begin(self, pid: int) -> None:
        """Note the pipes that the command has at its first call."""
        descriptors = self.host.descriptors(pid)
        self.foreign = {fd.link for fd in descriptors if fd.is_pipe}

    def executes(self, pid: int) -> None:
        self.other_users.add(pid)

    def forget_dead(self) -> None:
        """Drop processes whose task has ended."""
        for pid in [pid for pid, task in self.known.items() if task.gone]:
            del self.known[pid]
            self.host.forget(pid)

    # ---- calls that are left out
    def leave_out(self, pid: int) -> bool:
        if self.foreign is None:
            self.begin(pid)
        self.behind.add(pid)
        if len(self.behind) <= MEMBERS_MAX:
            return False
        ended = {pid for pid in list(self.behind) if not self.host.lives(pid)}
        self.behind -= ended - self.known.keys()
        return True

    def leave_out_exit(self, pid: int, _status: int) -> None:
        if pid in self.known:
            self.behind.add(pid)
        else:
            self.drop(pid)

    def drop(self, pid: int) -> None:
        self.behind.discard(pid)
        self.other_users.discard(pid)

    def catch_up(self, pid: int | None = None) -> None:
        if pid is not None:
            if pid in self.behind:
                self.task(pid)
                self.copy_descriptors([pid], {})
            return
        if self.kernel.guest.forks_seen():
            for pid in list(self.known):
                self.meet_children(pid)
        behind = list(self.behind)
        if not behind:
            return
        alive = [pid for pid in behind if self.host.lives(pid)]
        for pid in set(behind).difference(alive):
            self.end(pid)
        self.kernel.syscalls.reap()
        for pid in alive:
            with contextlib.suppress(KernelError):  # no room for so many
                self.task(pid)
        self.behind.difference_update(behind)
        there: OpenFiles = {}
        for pid in self.known.keys() - set(alive):
            for fd in self.host.descriptors(pid):
                there.setdefault(fd.link, []).append((pid, fd))
        self.copy_descriptors(alive, there)

    def meet_children(self, pid: int) -> None:
        """Make tasks of children and threads of a process that have made no call yet.

        Once it has ended nobody could say any more that they are its children.
        """
        for child in self.host.children(pid):
            if child not in self.known and child not in self.behind:
                with contextlib.suppress(KernelError):  # no room for so many
                    self.task(child)
                    self.meet_children(child)

    def end(self, pid: int) -> None:
        """Let the task of a process that has ended exit."""
        task = self.known.pop(pid, None)
        if task is not None and not task.gone and not task.blocked:
            self.kernel.guest.syscalls.exit(task)
        self.other_users.discard(pid)
        self.host.forget(pid)

    # ---- descriptors
    def number_of(self, pid: int, path: bytes, flags: int, others: set[int]) -> int:
        """See kpfs.base.skip_policy.NumberOf.

        It is the first descriptor with the file's name and flags that is none of the
        others.
        """
        name, how = path.rpartition(b"/")[2], flags & os.O_ACCMODE
        for fd in self.host.descriptors(pid):
            if (
                fd.in_tree
                and fd.number not in others
                and fd.number < MAX_FD
                and fd.link.rpartition(b"/")[2] == name
                and fd.flags & os.O_ACCMODE == how
            ):
                return fd.number
        return -1

    def copy_descriptors(self, pids: Iterable[int], there: OpenFiles) -> None:
        """Give tasks the descriptors that their processes have.

        there: the open files that other tasks have already; these are added.
        """
        for pid in pids:
            task = self.known.get(pid)
            if task is None or task.gone or task.blocked:
                continue
            records: list[Record] = []
            names, first = bytearray(), True
            for fd in self.host.descriptors(pid):
                if fd.number >= MAX_FD:
                    break
                size = (len(records) + 1) * _FD.size + len(names) + len(fd.name)
                if size >= BLOCK_SIZE:
                    self.install(task, records, names, first)
                    records, names, first = [], bytearray(), False
                others = there.setdefault(fd.link, [])
                records.append(self.record(pid, fd, others, names))
                others.append((pid, fd))
            self.install(task, records, names, first)

    def record(
        self,
        pid: int,
        fd: Descriptor,
        others: list[tuple[int, Descriptor]],
        names: bytearray,
    ) -> Record:
        """Return the fields of struct mirror_fd.

        others: descriptors that lead to fd's file.  names: the text at the end of the
        block, to which fd's is added.
        """
        mode, at = fd.mode, 0
        pipe = fd.is_pipe and fd.link not in (self.foreign or ())
        if fd.is_pipe and not pipe:
            mode = stat.S_IFREG | 0o600
        if fd.name:
            names[:0] = fd.name + b"\0"
            at = self.block + BLOCK_SIZE - len(names)
        same = (
            (owner, other)
            for owner, other in others
            if fd.shares_with(other)
            and same_open_file(pid, fd.number, owner, other.number)
        )
        owner, other = next(same, (0, None))
        end = other is None and pipe and bool(others)
        if end:
            owner, other = others[0]
        task = self.known.get(owner)
        if other is None or task is None or task.gone:
            return fd.number, mode, fd.flags, -1, 0, False, at, fd.in_tree
        place = other.number, task.addr, end
        return fd.number, mode, fd.flags, *place, at, fd.in_tree

    def install(
        self, task: HostTask, records: list[Record], names: bytearray, first: bool
    ) -> None:
        """Have the task take over some descriptors."""
        sched = self.kernel.guest.sched
        while self.installing:  # another thread has stepped aside in the middle of it
            sched.step_aside(BUSY_PAUSE)
        self.installing = True
        try:
            self.install_now(task, records, names, first)
        finally:
            self.installing = False

    def install_now(
        self, task: HostTask, records: list[Record], names: bytearray, first: bool
    ) -> None:
        for index, record in enumerate(records):
            _FD.pack_into(self.view, index * _FD.size, *record)
        if names:
            self.view[-len(names) :] = names
        self.kernel.guest.syscalls.call_function(
            task, self.func, self.block, len(records), first
        )
