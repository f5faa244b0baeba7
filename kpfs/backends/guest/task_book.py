# SPDX-License-Identifier: GPL-2.0-or-later
"""The tasks of a guest kernel that a command's processes have.

A task is made at the first call of its process that is made in the guest.  If calls
were left out, catching up brings the task to the state of its process: it exists or has
ended; it has the process's parent, user and name; its descriptors lead to open files of
that kind, and are shared by the tasks of those processes that share them on the host.

What other tasks have may be as old.  So catching up looks at all processes at once,
numbers what it finds, and has the guest give these numbers to what its tasks have
(guest/src/fs/mirror.c): what has no number of this look is not relied upon.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kpfs.base import abi
from kpfs.base.errors import KernelError
from kpfs.guest.running.hosttask import INIT_PID
from kpfs.guest.running.requests import BUSY_PAUSE
from kpfs.mirror.host import same_open_file, same_table
from kpfs.mirror.plan import MAX_FD
from kpfs.mirror.process_table import ProcessTable

if TYPE_CHECKING:
    from kpfs.backends.guest.root.guest_kernel import GuestKernel
    from kpfs.guest.running.hosttask import HostTask
    from kpfs.mirror.host import Descriptor, Host

_FD = abi.MirrorFd.STRUCT
CLONE_FILES = 0x400
Record = tuple[int, int, int, int, int, int, int, bool]
Numbers = tuple[int, int, int]
BLOCK_SIZE = 0x8000  # bytes of descriptors and their files' names, in one call


class GuestTaskBook(ProcessTable["HostTask"]):
    """The maker of tasks in a guest kernel.  Context: control, lock held."""

    def __init__(self, kernel: GuestKernel, host: Host) -> None:
        super().__init__(host, kernel.lock)
        self.known: dict[int, HostTask] = {}  # tasks of the processes seen so far
        # pipes that the command started with; no task has their other end
        self.foreign: set[bytes] = set()
        self.outside: set[int] = set()  # processes that the command descends from
        self.installing = False  # the block is in use
        self.numbers = itertools.count(1)  # for all that is looked at; see mirror.c
        self.enter(kernel)

    def enter(self, kernel: GuestKernel) -> None:
        """Use another kernel from now on, where no process has a task."""
        self.kernel = kernel
        self.behind.update(self.known)
        self.known = {}
        guest = kernel.guest
        self.func = guest.needed("mirror_catch_up")
        self.claim = guest.needed("mirror_claim_files")
        self.take_table = guest.needed("mirror_take_table")
        self.block = guest.area.alloc_data(BLOCK_SIZE)
        self.view = guest.view(self.block, BLOCK_SIZE)
        kernel.skip_policy.join_tasks(self)

    # ---- one task
    def find(self, pid: int) -> HostTask | None:
        return self.known.get(pid)

    def task(self, pid: int) -> HostTask:
        task = self.known.get(pid)
        if task is None or task.gone:
            self.known.pop(pid, None)
            with self.sharing():
                task = self.make(pid)
        else:
            uid = task.uid
            if pid in self.executed:
                uid = self.host.uid(pid)
                self.executed.discard(pid)
            task = self.known[pid] = self.kernel.syscalls.task_of(pid, uid)
        return task

    def make(self, pid: int) -> HostTask:
        """Have the creator's task fork in the guest, for a thread without a task."""
        self.forget_dead()
        creator = self.host.creator(pid)
        if creator not in self.known and self.has_begun(creator):
            self.make(creator)
        uid, shared = self.host.uid(pid), same_table(pid, creator)
        self.kernel.guest.host_tasks.of_process(
            pid, uid, parent=creator, flags=CLONE_FILES if shared else 0
        )
        task = self.known[pid] = self.kernel.syscalls.task_of(pid, uid)
        self.kernel.syscalls.moves += 1
        if not self.begun:
            self.begin(pid)
        return task

    @contextlib.contextmanager
    def sharing(self) -> Iterator[None]:
        """Give the tasks that are made meanwhile the descriptors of their processes.

        They may have begun long before their first call that is made.
        """
        before = set(self.known)
        yield
        if not all(map(self.has_inherited, self.known.keys() - before)):
            self.share()

    def has_begun(self, pid: int) -> bool:
        """Return True if a process is one of the command's; it may lack a task."""
        if pid in self.behind:
            return True
        return bool(self.outside) and pid > INIT_PID and pid not in self.outside

    def has_inherited(self, pid: int) -> bool:
        """Return True if a process has the descriptors that its creator has now."""
        creator = self.host.creator(pid)
        if creator not in self.known:
            return False
        if same_table(pid, creator):
            return True
        if any(same_table(pid, other) for other in self.known if other != pid):
            return False
        return self.host.same_descriptors(pid, creator)

    def begin(self, pid: int) -> None:
        """Note the command's pipes and ancestors."""
        self.begun = True
        descriptors = self.host.descriptors(pid)
        self.foreign = {fd.link for fd in descriptors if fd.is_pipe}
        while pid > INIT_PID:
            pid = self.host.creator(pid)
            self.outside.add(pid)

    def forget_dead(self) -> None:
        """Drop processes whose task has ended."""
        for pid in [pid for pid, task in self.known.items() if task.gone]:
            del self.known[pid]
            self.host.forget(pid)

    # ---- catching up
    def catch_up(self, pid: int | None = None) -> None:
        if pid is None:
            if self.kernel.guest.forks_seen():
                with self.sharing():
                    self.meet_children(self.known)
            if self.behind:
                self.kernel.syscalls.reap()
        super().catch_up(pid)

    def bring(self, pid: int) -> None:
        (self.task if pid in self.known else self.make)(pid)

    def copy(self, pid: int | None) -> None:
        if pid is None:
            self.share()
        else:
            self.copy_descriptors([pid])

    def meet_children(self, pids: Iterable[int]) -> None:
        """Make tasks of children and threads of processes that have made no call yet.

        Once these have ended nobody could say any more that they are their children.
        """
        for child in [child for pid in pids for child in self.host.children(pid)]:
            if child not in self.known and child not in self.behind:
                with contextlib.suppress(KernelError):  # no room for so many
                    self.make(child)
                    self.meet_children([child])

    def meet_heirs(self, pid: int) -> None:
        """Do that for those that share a process's table: they may have its files."""
        table = self.task(pid).table
        with self.sharing():
            self.meet_children(
                [other for other, task in self.known.items() if task.table == table]
            )

    def end(self, pid: int) -> None:
        task = self.known.pop(pid, None)
        if task is not None and not task.gone and not task.blocked:
            self.kernel.guest.host_tasks.exit(task)
        self.kernel.syscalls.moves += 1
        self.forget(pid)

    # ---- descriptors
    def share(self) -> None:
        """Give all tasks the descriptors of their processes.

        What only a process has had that was killed is free for those that it leaves,
        even if nobody has waited for it yet.
        """
        for pid in [pid for pid in self.known if not self.host.lives(pid)]:
            self.end(pid)
        if self.kernel.syscalls.marked:
            self.meet_children(self.known)
        self.copy_descriptors(list(self.known))

    def number_of(self, pid: int, path: bytes, flags: int, others: set[int]) -> int:
        """Return the host's number of a descriptor, or -1.

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

    def copy_descriptors(self, pids: Iterable[int]) -> None:
        """Give tasks the descriptors that their processes have, shared as there.

        Only what differs is changed.  Whatever other tasks share with these is right
        afterwards only if they are among them.
        """
        look, descriptors = _Look(self.numbers, self.foreign), self.host.descriptors
        self.kernel.syscalls.moves += 1
        found = [
            (task, [fd for fd in descriptors(task.host_pid) if fd.number < MAX_FD])
            for task in self.with_own_tables(pids, look)
        ]
        if self.kernel.syscalls.marked:
            for task, fds in found:
                mounted = [fd for fd in fds if fd.in_tree]
                self.install(self.claim, task, mounted, look)
        for task, fds in found:
            self.install(self.func, task, fds, look)

    def with_own_tables(self, pids: Iterable[int], look: _Look) -> list[HostTask]:
        """Have tasks share tables as their processes do; return one for each table."""
        firsts: list[HostTask] = []
        call = self.kernel.guest.syscalls.call_function
        for pid in pids:
            task = self.known.get(pid)
            if task is None or task.gone or task.blocked:
                continue
            if call(task, self.take_table, look.table(pid), look.since) == 0:
                firsts.append(task)
        return firsts

    def install(
        self, func: int, task: HostTask, fds: list[Descriptor], look: _Look
    ) -> None:
        """Have the task take over descriptors, as many in a call as there is room for.

        func: mirror_claim_files() or mirror_catch_up().
        """
        records: list[Record] = []
        names, begin = bytearray(), 0
        for fd in fds:
            name = fd.link if fd.in_tree else fd.name
            size = (len(records) + 1) * _FD.size + len(names) + len(name) + 1
            if size > BLOCK_SIZE:
                numbers = look.since, begin, fd.number
                self.install_some(func, task, records, names, numbers)
                records, names, begin = [], bytearray(), fd.number
            at = 0
            if name:
                names[:0] = name + b"\0"
                at = self.block + BLOCK_SIZE - len(names)
            records.append(look.record(task.host_pid, fd, at))
        numbers = look.since, begin, MAX_FD
        self.install_some(func, task, records, names, numbers)

    def install_some(
        self,
        func: int,
        task: HostTask,
        records: list[Record],
        names: bytearray,
        numbers: Numbers,
    ) -> None:
        """numbers: the last arguments of the function."""
        sched = self.kernel.guest.sched
        while self.installing:  # another thread has stepped aside in the middle of it
            sched.step_aside(BUSY_PAUSE)
        self.installing = True
        try:
            for index, record in enumerate(records):
                _FD.pack_into(self.view, index * _FD.size, *record)
            if names:
                self.view[-len(names) :] = names
            self.kernel.guest.syscalls.call_function(
                task, func, self.block, len(records), *numbers
            )
        finally:
            self.installing = False


class _Look:
    """A look at the descriptors of processes, and the numbers of what they lead to."""

    def __init__(self, numbers: Iterator[int], foreign: set[bytes]) -> None:
        """foreign: pipes of which the guest has no more than a file."""
        self.numbers = numbers
        self.since = next(numbers)  # all of this look are above it
        self.foreign = foreign
        self.tables: list[tuple[int, int]] = []  # a process that has it, its number
        # by the link that /proc shows: a descriptor of the file, and its number
        self.files: dict[bytes, list[tuple[int, Descriptor, int]]] = {}
        self.pipes: dict[bytes, int] = {}

    def table(self, pid: int) -> int:
        """Return the number of a process's table."""
        for other, number in self.tables:
            if same_table(pid, other):
                return number
        self.tables.append((pid, number := next(self.numbers)))
        return number

    def record(self, pid: int, fd: Descriptor, name: int) -> Record:
        """Return the fields of struct mirror_fd.  name: the address of the path."""
        mode, pipe, met = fd.mode, 0, 0
        if fd.is_pipe and fd.link in self.foreign:
            mode = stat.S_IFREG | 0o600
        elif fd.is_pipe:
            if fd.link in self.pipes:
                met |= abi.MIRROR_MET_PIPE
            else:
                self.pipes[fd.link] = next(self.numbers)
            pipe = self.pipes[fd.link]
        others = self.files.setdefault(fd.link, [])
        for owner, other, number in others:
            if fd.shares_with(other) and same_open_file(
                pid, fd.number, owner, other.number
            ):
                met |= abi.MIRROR_MET_FILE
                return fd.number, mode, fd.flags, met, number, pipe, name, fd.in_tree
        number = 0
        if same_open_file(pid, fd.number, pid, fd.number):  # else the host cannot tell
            number = next(self.numbers)
            others.append((pid, fd, number))
        return fd.number, mode, fd.flags, met, number, pipe, name, fd.in_tree
